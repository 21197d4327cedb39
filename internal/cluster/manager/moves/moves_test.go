// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/core/wire"
)

var ten = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// running returns a move that was ordered at ten and has sent 1 GB a minute later.
func running(t *testing.T) *Move {
	t.Helper()
	m := &Move{Move: wire.Move{ID: "m", Container: "web", From: "a", To: "b"}, State: wire.MoveOrdered, Created: ten, Ordered: ten}
	next, ok := m.Report(wire.MoveReport{Seq: 1, Step: "send checkpoint", State: wire.MoveRunning, Bytes: 1e9}, ten.Add(time.Minute))
	if !ok || next.State != wire.MoveRunning || m.State != wire.MoveOrdered {
		t.Fatalf("%+v, %v", next, ok)
	}
	return &next
}

// TestExample is the example of the package comment.
func TestExample(t *testing.T) {
	m := running(t)
	same, ok := m.Report(wire.MoveReport{Seq: 2, Step: "send checkpoint", State: wire.MoveRunning, Bytes: 1e9}, ten.Add(10*time.Minute))
	if !ok || !same.Changed.Equal(m.Changed) || !same.Said.After(m.Said) || len(same.Steps) != 1 {
		t.Fatalf("%+v, %v", same, ok)
	}
	same.Said = ten.Add(46 * time.Minute) // it goes on saying so
	if state, why := same.Overdue(ten.Add(45*time.Minute), ten); why != "" {
		t.Errorf("%s: %s", state, why)
	}
	state, why := same.Overdue(ten.Add(47*time.Minute), ten)
	if state != wire.MoveLost || !strings.Contains(why, "not come further") {
		t.Errorf("%s: %s", state, why)
	}
	same.State = state
	done, ok := same.Report(wire.MoveReport{Seq: 3, Step: "confirm", State: wire.MoveDone}, ten.Add(50*time.Minute))
	if !ok || done.State != wire.MoveDone || done.Ended.IsZero() || done.Progress != nil {
		t.Fatalf("%+v, %v", done, ok)
	}
	if _, ok := done.Report(wire.MoveReport{Seq: 4, State: wire.MoveRolledBack}, ten.Add(51*time.Minute)); ok {
		t.Error("it has ended in two ways")
	}
}

// TestReportsThatSayNothing change nothing.
func TestReportsThatSayNothing(t *testing.T) {
	late := ten.Add(2 * time.Minute)
	for name, c := range map[string]struct {
		change func(m *Move)
		report wire.MoveReport
	}{
		"twice the same":        {func(*Move) {}, wire.MoveReport{Seq: 1, Step: "thaw", State: wire.MoveRunning}},
		"one of no order":       {func(m *Move) { m.Ordered = time.Time{} }, wire.MoveReport{Seq: 2, State: wire.MoveDone}},
		"a cancelled one runs":  {func(m *Move) { m.State = wire.MoveCancelled }, wire.MoveReport{Seq: 2, Step: "thaw", State: wire.MoveRunning}},
		"a lost one stands":     {func(m *Move) { m.State = wire.MoveLost }, wire.MoveReport{Seq: 2, Step: "send checkpoint", State: wire.MoveRunning, Bytes: 1e9}},
		"a lost one is too old": {func(m *Move) { m.State, m.Ordered = wire.MoveLost, late.Add(-Longest) }, wire.MoveReport{Seq: 2, Step: "thaw", State: wire.MoveRunning}},
	} {
		m := running(t)
		c.change(m)
		if next, ok := m.Report(c.report, late); ok {
			t.Errorf("%s: %+v", name, next)
		}
	}
}

// TestQueueAndReady: moves begin by class and age, one that was to be made first is waited
// for, and a target is not filled before what leaves it has gone.
func TestQueueAndReady(t *testing.T) {
	all := map[string]*Move{}
	add := func(id, container, from, to string, state wire.MoveState, change func(m *Move)) {
		m := &Move{Move: wire.Move{ID: id, Container: container, From: from, To: to}, State: state, Created: ten.Add(time.Duration(len(all)) * time.Second)}
		change(m)
		all[id] = m
	}
	as := func(*Move) {}
	add("auto", "db", "c", "d", wire.MoveWaiting, func(m *Move) { m.Auto = true })
	add("operator", "web", "a", "b", wire.MoveWaiting, as)
	add("runs", "mail", "b", "c", wire.MoveRunning, as)
	add("ended", "x", "a", "b", wire.MoveDone, as)
	add("after", "y", "e", "f", wire.MoveWaiting, func(m *Move) { m.After = []string{"ended", "operator"} })
	add("broken", "z", "e", "f", wire.MoveWaiting, func(m *Move) { m.After = []string{"failed"} })
	add("failed", "x", "a", "b", wire.MoveFailed, as)
	add("beside", "v", "g", "h", wire.MoveWaiting, as)
	var ids, ready []string
	queue := Queue(all)
	for i, m := range queue {
		ids = append(ids, m.ID)
		switch ok, broken := Ready(m, queue[:i], all); {
		case broken != "":
			ready = append(ready, "broken")
		case ok:
			ready = append(ready, "ready")
		default:
			ready = append(ready, "waits")
		}
	}
	if got, want := fmt.Sprint(ids), "[runs operator after broken beside auto]"; got != want {
		t.Errorf("queue %s, want %s", got, want)
	}
	// web waits for mail, which leaves b; auto's target d is left by none.
	if got, want := fmt.Sprint(ready), "[ready waits waits broken ready ready]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := len(UnderWay(queue)); got != 1 {
		t.Errorf("%d under way, want 1", got)
	}
}

// TestSlots: with 4 moves at once in a large cluster, one node takes part in 3.
func TestSlots(t *testing.T) {
	s := NewSlots(4, 10, []*Move{{Move: wire.Move{From: "a", To: "b", DryRun: true}}})
	for i, c := range []struct {
		from, to string
		free     bool
	}{{"a", "b", true}, {"c", "a", true}, {"a", "d", true}, {"a", "e", false}, {"b", "e", true}, {"f", "g", false}} {
		m := &Move{Move: wire.Move{From: c.from, To: c.to}}
		if got := s.Free(m); got != c.free {
			t.Errorf("%d, from %s to %s: free %v, want %v", i, c.from, c.to, got, c.free)
		}
		s.Take(m)
	}
	if !s.Full("a") || s.Full("b") || s.Taken() != 4 {
		t.Errorf("%+v", s)
	}
}
