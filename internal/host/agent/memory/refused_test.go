// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"weir/internal/base/safepath/safepathtest"
	"weir/internal/core/event"
	"weir/internal/core/policy"
)

// TestStateThatOthersMayChange: what was set at run time is not taken from a file that another
// user could write, and events are not either.
func TestStateThatOthersMayChange(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	safepathtest.Refused(t, func(t *testing.T) string {
		dir := t.TempDir()
		if err := NewFile(dir).Save(Saved{Set: map[string]policy.Change{}}); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "state.json")
	}, func(path string) error {
		_, err := NewFile(filepath.Dir(path)).Load(log)
		return err
	})
	dir := t.TempDir()
	path := filepath.Join(dir, "events.json")
	if err := NewEventsFile(dir).Save(Events{State: event.State{}, Reached: map[string]uint64{"command": 7}}); err != nil {
		t.Fatal(err)
	}
	if kept := NewEventsFile(dir).Load(log); kept.Reached["command"] != 7 {
		t.Fatalf("%+v", kept)
	}
	if err := os.Chown(path, safepathtest.Stranger, 0); err != nil {
		t.Fatal(err)
	}
	if kept := NewEventsFile(dir).Load(log); kept.Reached["command"] != 0 {
		t.Errorf("events of another user: %+v", kept)
	}
	if err := errors.Join(os.Rename(path+".damaged", path), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := NewFile(dir).Save(Saved{}); err == nil {
		t.Error("state is kept in a folder that is open to all")
	}
}
