// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/core/wire"
)

// TestSequence: newer orders are admitted and older ones are not, over restarts, and
// entries past their deadlines are removed.
func TestSequence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sequence")
	open := func() *sequence {
		t.Helper()
		s, err := openSequence(file)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s, now := open(), time.Now()
	in := func(d time.Duration, seq uint64) wire.Term { return wire.Term{Until: now.Add(d), Seq: seq} }
	web, db := wire.Apply{ID: "1", Workload: "web"}, wire.Apply{ID: "2", Workload: "db"}
	for i, step := range []struct {
		order wire.Order
		term  wire.Term
		want  error
	}{
		{web, in(time.Minute, 5), nil},
		{web, in(time.Minute, 5), nil}, // the same once more: its id says that it was done
		{web, in(time.Minute, 4), wire.ErrReplayed},
		{db, in(time.Minute, 4), nil},
		{wire.Move{ID: "m", Container: "web"}, in(time.Minute, 3), nil}, // another kind
		{web, in(-wire.Skew-time.Second, 9), wire.ErrLate},
		{web, in(-wire.Skew+time.Second, 6), nil}, // late by less than the clocks may be apart
		{web, wire.Term{Until: now.Add(time.Minute)}, wire.ErrMalformed},
		{web, wire.Term{Seq: 10}, wire.ErrMalformed},
	} {
		if err := s.admit(step.order, step.term, now); !errors.Is(err, step.want) {
			t.Errorf("step %d: %v, want %v", i, err, step.want)
		}
		s = open()
	}
	for i := range 300 {
		if err := s.admit(wire.Apply{ID: "x", Workload: fmt.Sprint("w", i)}, wire.Term{Until: now.Add(time.Minute), Seq: 1}, now); err != nil {
			t.Fatal(err)
		}
	}
	later := now.Add(time.Hour)
	if err := s.admit(web, wire.Term{Until: later, Seq: 11}, later); err != nil || len(s.last) != 1 {
		t.Errorf("%v; %d entries are kept after all deadlines but one", err, len(s.last))
	}
}
