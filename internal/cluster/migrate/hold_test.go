// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// orphaned is a target whose agent dies once its copy is restored, and that cannot be
// reached from then on.
type orphaned struct {
	migrate.Node
	bed *faultBed
	cut *atomic.Bool
}

func (n orphaned) Do(ctx context.Context, step move.Step, o migrate.MoveSpec) (migrate.StepOutcome, error) {
	if n.cut.Load() {
		return migrate.StepOutcome{}, errFault
	}
	out, err := n.Node.Do(ctx, step, o)
	if step == move.Restore && err == nil {
		_ = n.bed.agent(n.Name()).Close() // its clock is dead too
		n.cut.Store(true)
		err = errFault
	}
	return out, err
}

// TestNeverTwo: the target's agent is dead and the network is cut, for longer than the
// probation. The source goes on, and what the target has left of the copy does not run;
// when its agent is back, it goes.
func TestNeverTwo(t *testing.T) {
	b := &faultBed{bed: newBed(t, clustertest.Options{Nodes: []string{"a", "b"}})}
	const name = "count"
	b.start("a", name, nil, "mib=4")
	before := b.leftovers("b", name)
	p := b.check(name, "a", "b", migrate.Request{})
	b.must(p.Err())
	p.Order.Lease = 6 * time.Second
	j, err := b.journals.Begin(p.Order)
	b.must(err)
	defer j.Close()
	target := orphaned{b.nodes["b"], b, &atomic.Bool{}}
	done := make(chan migrate.Result, 1)
	go func() {
		r, err := migrate.Run(context.Background(), b.nodes["a"], target, j, nil)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()

	r := <-done
	if !target.cut.Load() {
		t.Fatalf("nothing was restored: %s: %s%s", r.State, r.Err, steps(r))
	}
	now := b.waitCount("a", name, 2)
	held, err := b.Node("b").Count(t.Context(), name)
	b.must(err)
	if r.State != wire.MoveRolledBack || r.Warning == "" {
		t.Fatalf("%s, %q: %s%s", r.State, r.Warning, r.Err, steps(r))
	}
	for range 3 { // both have processes now; only one goes on
		now = b.waitCount("a", name, now.Last+3)
		there, err := b.Node("b").Docker().ContainerInspect(t.Context(), name)
		b.must(err)
		still, err := b.Node("b").Count(t.Context(), name)
		b.must(err)
		if !there.State.Paused || still.Last != held.Last {
			t.Errorf("the copy on b is %s and has come from %d to %d", there.State.Status, held.Last, still.Last)
		}
	}

	b.nodes["b"] = b.local(b.Node("b"))
	for deadline := time.Now().Add(20 * time.Second); b.leftovers("b", "") != before; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left on b:\n%s\nwanted:\n%s", b.leftovers("b", ""), before)
		}
	}
	if r, err := migrate.Resume(t.Context(), b.nodes["a"], b.nodes["b"], j, nil); err != nil || r.State != wire.MoveRolledBack {
		t.Errorf("the end of it: %s, %v", r.State, err)
	}
	if c := b.waitCount("a", name, now.Last); c.Starts != 1 {
		t.Errorf("it has started %d times", c.Starts)
	}
}
