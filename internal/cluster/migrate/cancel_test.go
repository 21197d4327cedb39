// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"sync"
	"testing"

	"weir/internal/cluster/move"
)

// TestCancelOrDecide: of a cancellation and the decision, the first wins, for the
// journal that is open and for a process that reads it later.
func TestCancelOrDecide(t *testing.T) {
	d := Journals{Dir: t.TempDir()}
	begin := func(id string) *Journal {
		t.Helper()
		j, err := d.Begin(MoveSpec{Move: id})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := begin("first-cancelled")
	ctx, done := j.cancellable(t.Context())
	defer done()
	if err := j.Cancel("by a test"); err != nil || context.Cause(ctx) == nil || context.Cause(ctx).Error() != "cancelled: by a test" {
		t.Errorf("%v, %v", err, context.Cause(ctx))
	}
	if err := j.decide(); err == nil || j.Phase() != PhaseForward {
		t.Errorf("decided after it was cancelled: %v, phase %d", err, j.Phase())
	}

	j = begin("first-decided")
	if err := errors.Join(j.decide(), j.decide()); err != nil || len(j.Entries()) != 2 {
		t.Errorf("%v, %d records", err, len(j.Entries()))
	}
	if err := j.Cancel("too late"); move.CodeOf(err) != move.CodeRefused {
		t.Error(err)
	}
	_ = j.Close()
	j, err := d.Open("first-decided")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Cancel("after a restart"); move.CodeOf(err) != move.CodeRefused {
		t.Error(err)
	}

	for range 100 { // either may be first, but not both
		j := &Journal{file: j.file}
		var both sync.WaitGroup
		var cancelled, decided error
		both.Go(func() { cancelled = j.Cancel("race") })
		both.Go(func() { decided = j.decide() })
		both.Wait()
		if (cancelled == nil) == (decided == nil) {
			t.Fatalf("cancelled: %v, decided: %v", cancelled, decided)
		}
	}
}
