// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/wire"
)

// TestMovesOfADeadNodeEnd: nodes that die, or go silent on purpose, with as many moves
// under way as are allowed at once do not keep the others from moving. What they report
// when they come back counts.
func TestMovesOfADeadNodeEnd(t *testing.T) {
	b := newBed(t, "a", "b", "c", "d", "e", "f")
	first, second := b.order("web", "a", "b"), b.order("db", "c", "d")
	b.report(first, "checkpoint", wire.Running)
	b.report(second, "checkpoint", wire.Running)
	third := b.order("mail", "e", "f")
	b.state(third, stateWaiting)
	b.dead["a"], b.dead["c"] = true, true
	b.pass(moveSilence - time.Second)
	b.state(first, string(wire.Running))
	b.state(third, stateWaiting)
	b.pass(3 * time.Second)
	b.state(first, stateLost)
	b.state(second, stateLost)
	b.state(third, stateOrdered)

	b.dead["a"], b.dead["c"] = false, false
	b.pass(time.Minute)
	b.report(first, "confirm", wire.Done)
	b.state(first, string(wire.Done))
	b.report(second, "send checkpoint", wire.Running)
	b.state(second, string(wire.Running))
	b.report(second, "thaw", wire.RolledBack)
	b.state(second, string(wire.RolledBack))
	b.report(second, "", wire.Done) // it has said the opposite before
	b.state(second, string(wire.RolledBack))
}

// TestMovesThatStandStillEnd: a node that answers each reminder and comes no further, or
// pretends progress for ever, holds its place for a bounded time.
func TestMovesThatStandStillEnd(t *testing.T) {
	b := newBed(t, "a", "b", "c")
	b.opts.Automatic.AtOnce = 3
	still, busy := b.order("web", "a", "b"), b.order("db", "a", "b")
	b.report(still, "push-image", wire.Running)
	var ended time.Duration
	begun := b.now
	for n := uint64(1); b.now.Sub(begun) < moveLongest+time.Minute; n++ {
		b.pass(30 * time.Second)
		b.report(still, "push-image", wire.Running)
		r := wire.MoveReport{ID: busy.ID, Node: "a", Seq: uint64(b.now.UnixNano()), Step: "send checkpoint", State: wire.Running, Bytes: n << 24}
		if err := b.reported(r, b.now); err != nil {
			t.Fatal(err)
		}
		if still.final() && ended == 0 {
			ended = b.now.Sub(begun)
		}
	}
	b.state(still, stateLost)
	b.state(busy, stateLost)
	if ended < moveStill || ended > moveStill+time.Minute {
		t.Errorf("the one that stands still ended after %v", ended)
	}
	if took := busy.Ended.Sub(begun); took < moveLongest || took > moveLongest+time.Minute {
		t.Errorf("the one that pretends progress ended after %v", took)
	}
	if busy.Error == "" || !strings.Contains(still.Error, "push-image") {
		t.Errorf("%q, %q", still.Error, busy.Error)
	}
}

// TestReportsOfMovesThatWait: a node cannot end, or begin, what it was not told to.
func TestReportsOfMovesThatWait(t *testing.T) {
	b := newBed(t, "a", "b", "c")
	b.order("web", "b", "a")
	waits := b.order("db", "a", "b") // b's has to leave first
	b.state(waits, stateWaiting)
	b.report(waits, "confirm", wire.Done)
	b.state(waits, stateWaiting)
}

// TestRestartIsNoSilence: what a manager did not hear while it was away is not held
// against the nodes.
func TestRestartIsNoSilence(t *testing.T) {
	b := newBed(t, "a", "b")
	mv := b.order("web", "a", "b")
	b.report(mv, "checkpoint", wire.Running)
	b.now = b.now.Add(8 * time.Hour)
	b.started = b.now
	b.pass(moveSilence - 10*time.Second)
	b.state(mv, string(wire.Running))
	b.report(mv, "confirm", wire.Done)
	b.state(mv, string(wire.Done))
}

// TestCancel: by what a move is, at once, by its node, or without it.
func TestCancel(t *testing.T) {
	b := newBed(t, "a", "b", "c")
	b.opts.Automatic.AtOnce = 3
	runs, waits := b.order("web", "a", "b"), b.order("db", "b", "c")
	b.state(waits, stateOrdered)
	third := b.order("mail", "c", "a")
	b.state(third, stateWaiting)
	cancel := func(mv *move, dryRun bool, effect string) {
		t.Helper()
		done, err := b.cancelMove(mv.ID, dryRun, b.now)
		if err != nil || done.Effect != effect {
			t.Errorf("%+v, %v", done, err)
		}
	}
	cancel(third, true, "ended")
	b.state(third, stateWaiting)
	cancel(third, false, "ended")
	b.state(third, stateCancelled)
	if _, err := b.cancelMove(third.ID, false, b.now); err == nil || !strings.Contains(err.Error(), "has ended already") {
		t.Errorf("%v", err)
	}

	b.report(runs, "checkpoint", wire.Running)
	sent := len(b.orders)
	cancel(runs, true, "asked")
	if len(b.orders) != sent {
		t.Error("a dry run has sent something")
	}
	cancel(runs, false, "asked")
	b.state(runs, string(wire.Running))
	e, err := wire.Open(b.orders[len(b.orders)-1].Data)
	if err != nil || e.Kind != "cancel" || e.Subject != "L.a" || e.Until.IsZero() {
		t.Errorf("%+v, %v", e, err)
	}
	late := wire.MoveReport{ID: runs.ID, Node: "a", Seq: uint64(b.now.Add(time.Second).UnixNano()), State: wire.Running, Step: "confirm", Cancel: "too late: it is done"}
	if err := b.reported(late, b.now); err != nil {
		t.Fatal(err)
	}
	if _, err := b.cancelMove(runs.ID, false, b.now); err == nil || !strings.Contains(err.Error(), "too late") {
		t.Errorf("%v", err)
	}
	b.pass(cancelPatience + 2*time.Second)
	b.state(runs, string(wire.Running)) // it has answered

	cancel(waits, false, "asked") // and b says nothing to it
	b.pass(cancelPatience + 2*time.Second)
	b.state(waits, stateCancelled)
	b.report(waits, "restore", wire.Running)
	b.state(waits, stateCancelled)
	b.report(waits, "thaw", wire.RolledBack)
	b.state(waits, string(wire.RolledBack))

	gone := b.order("dns", "c", "b")
	b.report(gone, "checkpoint", wire.Running)
	b.dead["c"] = true
	b.pass(lostAfter + 2*time.Second)
	cancel(gone, false, "closed")
	b.state(gone, stateCancelled)
}

// TestNodeWithMovesIsRemoved: a move under way does not keep a node in the cluster, and
// ends with it.
func TestNodeWithMovesIsRemoved(t *testing.T) {
	b := newBed(t, "a", "b", "c")
	b.Manager.opts.Automatic.AtOnce = 3
	to, from, other := b.order("db", "b", "a"), b.order("web", "a", "c"), b.order("mail", "b", "c")
	b.report(from, "checkpoint", wire.Running)
	b.report(to, "checkpoint", wire.Running)
	if _, err := b.RemoveNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	b.state(from, stateCancelled)
	b.state(to, stateCancelled)
	if other.final() {
		t.Errorf("%+v", other)
	}
	told := false
	for _, o := range b.orders {
		e, err := wire.Open(o.Data)
		told = told || err == nil && e.Kind == "cancel" && e.Subject == "L.b"
		if err == nil && e.Kind == "cancel" && e.Subject != "L.b" {
			t.Errorf("%s is told to cancel something", e.Subject)
		}
	}
	if !told {
		t.Error("b was not told that its move to a is off")
	}
	b.report(to, "thaw", wire.RolledBack) // the truth, when it comes
	b.state(to, string(wire.RolledBack))
}
