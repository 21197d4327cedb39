// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/manager/moves"
	"weir/internal/cluster/manager/planning"
	"weir/internal/core/wire"
)

// TestMovesOfADeadNodeEnd: nodes that die, or go silent on purpose, with as many moves
// under way as are allowed at once do not keep the others from moving. What they report
// when they come back counts.
func TestMovesOfADeadNodeEnd(t *testing.T) {
	b := newBed(t, "a", "b", "c", "d", "e", "f")
	first, second := b.order("web", "a", "b"), b.order("db", "c", "d")
	b.report(first, "checkpoint", wire.MoveRunning)
	b.report(second, "checkpoint", wire.MoveRunning)
	third := b.order("mail", "e", "f")
	b.state(third, wire.MoveWaiting)
	b.dead["a"], b.dead["c"] = true, true
	b.pass(moves.Silence - time.Second)
	b.state(first, wire.MoveRunning)
	b.state(third, wire.MoveWaiting)
	b.pass(3 * time.Second)
	b.state(first, wire.MoveLost)
	b.state(second, wire.MoveLost)
	b.state(third, wire.MoveOrdered)

	b.dead["a"], b.dead["c"] = false, false
	b.pass(time.Minute)
	b.report(first, "confirm", wire.MoveDone)
	b.state(first, wire.MoveDone)
	b.report(second, "send checkpoint", wire.MoveRunning)
	b.state(second, wire.MoveRunning)
	b.report(second, "thaw", wire.MoveRolledBack)
	b.state(second, wire.MoveRolledBack)
	b.report(second, "", wire.MoveDone) // it has said the opposite before
	b.state(second, wire.MoveRolledBack)
}

// TestMovesThatStandStillEnd: a node that answers each reminder and comes no further, or
// pretends progress for ever, holds its place for a bounded time.
func TestMovesThatStandStillEnd(t *testing.T) {
	b := newBed(t, "a", "b", "c")
	b.opts.Automatic.AtOnce = 3
	still, busy := b.order("web", "a", "b"), b.order("db", "a", "b")
	b.report(still, "push-image", wire.MoveRunning)
	var ended time.Duration
	begun := b.now
	for n := uint64(1); b.now.Sub(begun) < moves.Longest+time.Minute; n++ {
		b.pass(30 * time.Second)
		b.report(still, "push-image", wire.MoveRunning)
		r := wire.MoveReport{ID: busy.ID, Node: "a", Seq: uint64(b.now.UnixNano()), Step: "send checkpoint", State: wire.MoveRunning, Bytes: n << 24}
		if err := b.reported(r, b.now); err != nil {
			t.Fatal(err)
		}
		if still.State.Final() && ended == 0 {
			ended = b.now.Sub(begun)
		}
	}
	b.state(still, wire.MoveLost)
	b.state(busy, wire.MoveLost)
	if ended < moves.Still || ended > moves.Still+time.Minute {
		t.Errorf("the one that stands still ended after %v", ended)
	}
	if took := busy.Ended.Sub(begun); took < moves.Longest || took > moves.Longest+time.Minute {
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
	b.state(waits, wire.MoveWaiting)
	b.report(waits, "confirm", wire.MoveDone)
	b.state(waits, wire.MoveWaiting)
}

// TestRestartIsNoSilence: what a manager did not hear while it was away is not held
// against the nodes.
func TestRestartIsNoSilence(t *testing.T) {
	b := newBed(t, "a", "b")
	mv := b.order("web", "a", "b")
	b.report(mv, "checkpoint", wire.MoveRunning)
	b.now = b.now.Add(8 * time.Hour)
	b.started = b.now
	b.pass(moves.Silence - 10*time.Second)
	b.state(mv, wire.MoveRunning)
	b.report(mv, "confirm", wire.MoveDone)
	b.state(mv, wire.MoveDone)
}

// TestCancel: by what a move is, at once, by its node, or without it.
func TestCancel(t *testing.T) {
	b := newBed(t, "a", "b", "c")
	b.opts.Automatic.AtOnce = 3
	runs, waits := b.order("web", "a", "b"), b.order("db", "b", "c")
	b.state(waits, wire.MoveOrdered)
	third := b.order("mail", "c", "a")
	b.state(third, wire.MoveWaiting)
	cancel := func(mv *moves.Move, dryRun bool, effect string) {
		t.Helper()
		done, err := b.cancelMove(mv.ID, dryRun, b.now)
		if err != nil || done.Effect != effect {
			t.Errorf("%+v, %v", done, err)
		}
	}
	cancel(third, true, "ended")
	b.state(third, wire.MoveWaiting)
	cancel(third, false, "ended")
	b.state(third, wire.MoveCancelled)
	if _, err := b.cancelMove(third.ID, false, b.now); err == nil || !strings.Contains(err.Error(), "has ended already") {
		t.Errorf("%v", err)
	}

	b.report(runs, "checkpoint", wire.MoveRunning)
	sent := len(b.orders)
	cancel(runs, true, "asked")
	if len(b.orders) != sent {
		t.Error("a dry run has sent something")
	}
	cancel(runs, false, "asked")
	b.state(runs, wire.MoveRunning)
	e, err := wire.Open(b.orders[len(b.orders)-1].Data)
	if err != nil || e.Kind != "cancel" || e.Subject != "L.a" || e.Until.IsZero() {
		t.Errorf("%+v, %v", e, err)
	}
	late := wire.MoveReport{ID: runs.ID, Node: "a", Seq: uint64(b.now.Add(time.Second).UnixNano()), State: wire.MoveRunning, Step: "confirm", Cancel: "too late: it is done"}
	if err := b.reported(late, b.now); err != nil {
		t.Fatal(err)
	}
	if _, err := b.cancelMove(runs.ID, false, b.now); err == nil || !strings.Contains(err.Error(), "too late") {
		t.Errorf("%v", err)
	}
	b.pass(moves.CancelPatience + 2*time.Second)
	b.state(runs, wire.MoveRunning) // it has answered

	cancel(waits, false, "asked") // and b says nothing to it
	b.pass(moves.CancelPatience + 2*time.Second)
	b.state(waits, wire.MoveCancelled)
	b.report(waits, "restore", wire.MoveRunning)
	b.state(waits, wire.MoveCancelled)
	b.report(waits, "thaw", wire.MoveRolledBack)
	b.state(waits, wire.MoveRolledBack)

	gone := b.order("dns", "c", "b")
	b.report(gone, "checkpoint", wire.MoveRunning)
	b.dead["c"] = true
	b.pass(planning.LostAfter + 2*time.Second)
	cancel(gone, false, "closed")
	b.state(gone, wire.MoveCancelled)
}

// TestNodeWithMovesIsRemoved: a move under way does not keep a node in the cluster, and
// ends with it.
func TestNodeWithMovesIsRemoved(t *testing.T) {
	b := newBed(t, "a", "b", "c")
	b.Manager.opts.Automatic.AtOnce = 3
	to, from, other := b.order("db", "b", "a"), b.order("web", "a", "c"), b.order("mail", "b", "c")
	b.report(from, "checkpoint", wire.MoveRunning)
	b.report(to, "checkpoint", wire.MoveRunning)
	if _, err := b.RemoveNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	b.state(from, wire.MoveCancelled)
	b.state(to, wire.MoveCancelled)
	if other.State.Final() {
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
	b.report(to, "thaw", wire.MoveRolledBack) // the truth, when it comes
	b.state(to, wire.MoveRolledBack)
}
