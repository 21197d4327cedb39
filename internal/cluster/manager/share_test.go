// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/manager/moves"
	"weir/internal/core/wire"
)

// pretend reports progress of a move that is none, in a way of its own.
func (b *bed) pretend(mv *moves.Move, n uint64, how string) {
	b.t.Helper()
	r := wire.MoveReport{ID: mv.ID, Node: mv.From, Seq: uint64(b.now.UnixNano()), Step: "send checkpoint", State: wire.MoveRunning}
	switch how {
	case "bytes back and forth":
		r.Bytes = n % 2 << 30
	case "steps back and forth":
		r.Step = fmt.Sprint("step ", n%2)
	case "a byte more":
		r.Bytes = n
	case "more than any link carries":
		r.Bytes = n << 50
	case "growth":
		r.Bytes = n << 24
	}
	if err := b.reported(r, b.now); err != nil {
		b.t.Fatal(err)
	}
}

// TestFakeProgressEnds: what a hostile source reports keeps its move under way no longer
// than a move that stands still, unless it grows as a move would; then moves.Longest ends it.
func TestFakeProgressEnds(t *testing.T) {
	for how, bound := range map[string]time.Duration{"bytes back and forth": moves.Still, "steps back and forth": moves.Still, "a byte more": moves.Still,
		"more than any link carries": moves.Still, "growth": moves.Longest} {
		b := newBed(t, "a", "b", "x")
		b.db.NoSync() // this does not test the kernel's disk
		mv, begun := b.order("web", "x", "b"), b.now
		for n := uint64(1); !mv.State.Final() && b.now.Sub(begun) < moves.Longest+time.Minute; n++ {
			b.pass(30 * time.Second)
			b.pretend(mv, n, how)
		}
		b.state(mv, wire.MoveLost)
		if took := mv.Ended.Sub(begun); took < bound || took > bound+2*time.Minute {
			t.Errorf("%s: the move ended after %v, want %v", how, took, bound)
		}
	}
}

// TestOneNodeStopsNobody: a hostile node with moves from and to it that go on for ever,
// lost ones that come to life again included, leaves a place to the others: their moves
// begin within a second.
func TestOneNodeStopsNobody(t *testing.T) {
	b := newBed(t, "a", "b", "c", "x")
	var theirs []*moves.Move
	for i := range 6 {
		theirs = append(theirs, b.order(fmt.Sprint("c", i), "x", "a"))
	}
	b.state(theirs[0], wire.MoveOrdered)
	b.state(theirs[1], wire.MoveWaiting)
	first := b.order("web", "b", "c")
	b.state(first, wire.MoveOrdered)
	b.report(first, "confirm", wire.MoveDone)

	b.pretend(theirs[0], 1, "growth")
	for n := uint64(1); n < 3*60; n++ { // an hour and a half: the first ends as lost, the second is ordered
		b.pass(30 * time.Second)
		b.pretend(theirs[0], n%2, "growth") // no further
		if theirs[1].State.UnderWay() {
			b.pretend(theirs[1], n, "growth")
		}
	}
	b.state(theirs[0], wire.MoveLost)
	b.pretend(theirs[0], 200, "growth") // and is under way once more
	b.state(theirs[0], wire.MoveRunning)
	second := b.order("mail", "c", "b")
	b.pass(time.Second)
	b.state(second, wire.MoveOrdered)
	to := b.order("dns", "a", "x") // the other role counts as well
	b.report(second, "confirm", wire.MoveDone)
	b.pass(time.Second)
	b.state(to, wire.MoveWaiting)
}

// TestOneNodeDoesNotStopTheAutomaticMode: the manager goes on planning for the others
// while the moves of a node that says it is overloaded stand still, and whatever that
// node does with the moves of the hour.
func TestOneNodeDoesNotStopTheAutomaticMode(t *testing.T) {
	b := newBed(t, "a", "b", "c", "x")
	b.opts.Automatic.Enabled, b.opts.Automatic.Above = true, 0
	for i := range 30 {
		b.has["x"] = append(b.has["x"], fmt.Sprint("c", i))
	}
	b.pass(0)
	moved := func(node string) (n int) {
		for _, mv := range b.moves {
			if mv.From == node && mv.Auto {
				n++
			}
		}
		return n
	}
	look := func() {
		b.now = moves.Later(b.now, time.Now())
		b.pass(0)
		b.look(b.now)
	}
	for range 30 {
		look()
		for _, mv := range moves.ByAge(b.moves) {
			if mv.From == "x" && mv.State.UnderWay() && len(b.moves) < 40 { // it refuses each, at once
				b.report(mv, "pre-flight", wire.MoveRefused)
			}
		}
		b.now = b.now.Add(time.Minute / 2)
	}
	if n := moved("x"); n < 5 || n > 15 {
		t.Errorf("%d moves of x, want at most 15 of the 20 of an hour", n)
	}
	for i := range 20 {
		b.has["a"] = append(b.has["a"], fmt.Sprint("d", i))
	}
	look()
	if moved("a") == 0 {
		t.Errorf("nothing of a was moved: %s", b.auto.result)
	}
}

// TestOperatorsMovesGoFirst: what an operator orders begins before what the planner and
// nodes have asked for, however long that has waited.
func TestOperatorsMovesGoFirst(t *testing.T) {
	b := newBed(t, "a", "b", "c", "d")
	b.opts.Automatic.AtOnce = 1
	runs := b.order("web", "a", "b")
	planned, asked := b.order("p", "b", "c"), b.order("q", "c", "d")
	planned.Auto, asked.Place = true, "p-1"
	ordered := b.order("o", "d", "a")
	b.pass(time.Second)
	b.state(ordered, wire.MoveWaiting)
	b.report(runs, "confirm", wire.MoveDone)
	b.state(ordered, wire.MoveOrdered)
	b.state(planned, wire.MoveWaiting)
	b.report(ordered, "confirm", wire.MoveDone)
	b.state(planned, wire.MoveOrdered)
	b.state(asked, wire.MoveWaiting)
}

// TestDryRunsTakeNoPlace: a question changes nothing, so it neither waits for a place nor
// keeps a move from one.
func TestDryRunsTakeNoPlace(t *testing.T) {
	b := newBed(t, "a", "b", "c")
	b.opts.Automatic.AtOnce = 1
	b.has["b"] = []string{"web"}
	b.pass(0)
	runs := b.order("db", "a", "c")
	b.state(runs, wire.MoveOrdered)
	dry, err := b.migrate(api.MoveRequest{Container: "web", To: "c"}, true, b.now)
	if err != nil || dry.State != wire.MoveOrdered {
		t.Errorf("%+v, %v", dry, err)
	}
	b.report(runs, "confirm", wire.MoveDone)
	b.state(b.order("mail", "a", "c"), wire.MoveOrdered)
}
