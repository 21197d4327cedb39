// SPDX-License-Identifier: Apache-2.0

package natsserver

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/core/wire"
)

// TestTooSmallADisk: on a file system with less than the bus needs it does not start, and
// says how much that is; with so much it starts.
func TestTooSmallADisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a file system of a given size")
	}
	b := newBed(t)
	serve := func(bytes int64) error {
		dir := t.TempDir()
		if err := unix.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
			t.Skipf("no tmpfs can be mounted here: %v", err)
		}
		defer unix.Unmount(dir, unix.MNT_DETACH)
		s, err := Serve(t.Context(), ServerOptions{Listen: "127.0.0.1:0", Dir: dir, Identity: b.identity(t, wire.Manager), Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			s.Close()
		}
		return err
	}
	need := diskNeeded()
	err := serve(need - 1<<20)
	if want := fmt.Sprintf("the bus needs %d MB", need/1e6); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "make room") {
		t.Errorf("with 1 MB less than needed: %v, want %q", err, want)
	}
	if err := serve(need + 1<<20); err != nil {
		t.Errorf("with what is needed: %v", err)
	}
}
