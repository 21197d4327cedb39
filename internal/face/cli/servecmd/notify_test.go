// SPDX-License-Identifier: Apache-2.0

package servecmd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReadyAfterALongStart: systemd hears that the agent is ready also if setting the links up
// took longer than one request waits, and does not hear it of an agent that never answered.
func TestReadyAfterALongStart(t *testing.T) {
	address := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	systemd, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", address.Name)
	hears := func() string {
		text := make([]byte, 100)
		if err := systemd.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, _ := systemd.Read(text)
		return string(text[:n])
	}
	log, busy := slog.New(slog.DiscardHandler), 1
	ended, end := context.WithCancel(t.Context())
	end()
	notifyReady(ended, log, func() error { return errors.New("busy") })
	if got := hears(); got != "" {
		t.Errorf("an agent that never answered: %q", got)
	}
	notifyReady(t.Context(), log, func() error {
		if busy--; busy >= 0 {
			return errors.New("busy")
		}
		return nil
	})
	if got := hears(); got != "READY=1" {
		t.Errorf("systemd hears %q", got)
	}
}

// TestUnitWaitsForTheAgent: the unit counts as started when the agent says so.
func TestUnitWaitsForTheAgent(t *testing.T) {
	unit, err := os.ReadFile("../../../../deploy/weir.service")
	if err != nil || !strings.Contains(string(unit), "\nType=notify\n") {
		t.Errorf("the unit is not of Type=notify: %v", err)
	}
}
