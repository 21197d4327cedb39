// SPDX-License-Identifier: Apache-2.0

package warrant

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
)

// TestDamagedRecord: of a move whose record is damaged the helper does nothing, and does not say
// that the move is unknown: that would have its source go on while a copy may run. Other moves
// go on.
func TestDamagedRecord(t *testing.T) {
	b := newBed(t, "b")
	soon := b.now.Add(time.Minute)
	web, db := order("m-1", "web", "a", "b"), order("m-2", "db", "a", "b")
	w := b.granted(web, soon)
	if err := errors.Join(b.admit(w), b.admit(b.granted(db, soon))); err != nil {
		t.Fatal(err)
	}
	b.stop()
	if err := os.WriteFile(filepath.Join(b.dir, "own", "moves", "m-1.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start(Options{})
	calls := allCalls(b.agent, t.Context())
	calls["target admit"] = func(migrate.MoveSpec) error { return b.admit(w) }
	asked := len(b.engine.calls())
	for what, call := range calls {
		if err := call(web); err == nil || move.CodeOf(err) != "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := b.engine.calls(); len(got) > asked {
		t.Errorf("the engine was asked %q", got[asked:])
	}
	if err := calls["target pull-image"](db); err != nil {
		t.Errorf("another move: %v", err)
	}
}
