// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"weir/internal/base/safepath/safepathtest"
)

// TestSocketsThatOthersCouldExchange: no socket, and no lock of one, is made where another user
// could put a file of root's in its place: that file would be the group's.
func TestSocketsThatOthersCouldExchange(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	safepathtest.Refused(t, func(t *testing.T) string {
		path := t.TempDir() + "/above/folder/weir.sock.lock"
		if err := errors.Join(os.MkdirAll(strings.TrimSuffix(path, "/weir.sock.lock"), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}, func(path string) error {
		s, err := Listen(strings.TrimSuffix(path, ".lock"), "daemon", "agent", quiet)
		if err != nil {
			return err
		}
		return s.Close()
	})
	above := t.TempDir()
	if err := os.Chown(above, safepathtest.Stranger, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenView(above+"/weir.sock", "daemon", "agent", quiet); err == nil || !strings.Contains(err.Error(), "belongs to uid") {
		t.Errorf("the socket for users who may only look: %v", err)
	}
}
