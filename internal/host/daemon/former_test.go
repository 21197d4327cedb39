// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/host/agent"
)

// TestStartWithAWrongFile: an agent whose file is wrong at its start begins with the one that was
// in force before, says so, and takes the file once it is right.
func TestStartWithAWrongFile(t *testing.T) {
	dir := t.TempDir()
	file, state := filepath.Join(dir, "weir.yaml"), filepath.Join(dir, "state")
	write := func(format string, args ...any) {
		t.Helper()
		if err := os.WriteFile(file, fmt.Appendf(nil, format, args...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const good = "links: [{device: nosuch0, egress: %dmbit}]\ndocker: {enabled: false}\n"
	begin := func() (*agent.Agent, func(), error) {
		a, err := FromConfig(file, Overrides{StateDir: state}, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		return a, func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("agent ended: %v", err)
			}
		}, nil
	}
	status := func(a *agent.Agent) api.Status {
		t.Helper()
		s, err := a.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write("links: [")
	if _, _, err := begin(); err == nil || !strings.Contains(err.Error(), "weir.yaml:1:8") {
		t.Fatalf("without a former file: %v", err)
	}
	write(good, 50)
	a, end, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	status(a) // it runs
	write(good, 60)
	if err := a.Reload(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	end()
	for name, wrong := range map[string]string{
		"a mistake":  "links: [{device: nosuch0, egress: 7mbps}]\n",
		"no text":    "",
		"zero bytes": strings.Repeat("\x00", 3000),
	} {
		write("%s", wrong)
		a, end, err := begin()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s := status(a); s.ConfigError == "" || len(s.Links) != 1 || s.Links[0].CapacityBps != 60e6 || s.Config != file {
			t.Errorf("%s: %+v", name, s)
		}
		write(good, 60)
		for until := time.Now().Add(5 * time.Second); status(a).ConfigError != "" && time.Now().Before(until); {
			time.Sleep(50 * time.Millisecond) // until the agent has seen the file
		}
		if s := status(a); s.ConfigError != "" || s.Links[0].CapacityBps != 60e6 {
			t.Errorf("%s, corrected: %+v", name, s)
		}
		end()
	}
	other := filepath.Join(dir, "other.yaml")
	if err := os.WriteFile(other, []byte("links: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := FromConfig(other, Overrides{StateDir: state}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("another file's copy counts")
	}
}
