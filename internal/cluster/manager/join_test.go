// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"time"

	"weir/internal/cluster/manager/moves"
	"weir/internal/core/wire"
)

// TestMovesOfBefore: a rotation waits for moves that were ordered before it, and for no
// others.
func TestMovesOfBefore(t *testing.T) {
	b := newBed(t, "a", "b")
	begun := b.now
	for _, c := range []struct {
		state   wire.MoveState
		created time.Time
		waits   bool
	}{
		{wire.MoveOrdered, begun.Add(-time.Second), true},
		{wire.MoveWaiting, begun.Add(-time.Second), true},
		{wire.MoveDone, begun.Add(-time.Second), false},
		{wire.MoveOrdered, begun.Add(time.Second), false},
	} {
		b.moves["m"] = &moves.Move{State: c.state, Created: c.created}
		if b.movesSince(begun) != c.waits {
			t.Errorf("%s, made %v after the beginning: waits %v, want %v", c.state, c.created.Sub(begun), !c.waits, c.waits)
		}
	}
}
