// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"context"
	"slices"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/dataplane"
)

// Packets of a queue, and of a class, with an interval leave one after the other, at
// another pace once it has changed, and at once when it is taken away; they are
// counted all the while.
func TestPacketsWaitForTheirTime(t *testing.T) {
	const packets, frame = 40, 100 + 42
	pace := func(each time.Duration) plan.Interval {
		return plan.Interval(uint64(each) << plan.IntervalShift / frame)
	}
	for name, held := range map[string]func(c *plan.Class, i plan.Interval){
		"queue": func(c *plan.Class, i plan.Interval) {
			c.Discipline, c.Queues = discipline.PQ, []plan.Queue{{Name: "a", Interval: i, Reserve: 1}, {Name: "b"}}
		},
		"class": func(c *plan.Class, i plan.Interval) { c.Discipline, c.Interval, c.Reserve = discipline.FIFO, i, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			b := newBackend(t, onLink(t))
			state := threeClasses(plan.SchedulerFair)
			held(&state.Classes[0], pace(20*time.Millisecond))
			must(t, b.Set(ctx, state))
			host := func() dataplane.Counters {
				snap, err := b.Counters()
				must(t, err)
				c := snap.Classes[0]
				if c.EnqueuedPackets != c.SentPackets+c.BacklogPackets {
					t.Fatalf("counters do not add up: %+v", c)
				}
				return c
			}
			first, began := host().SentPackets, time.Now()
			wait := func(n uint64) {
				t.Helper()
				for host().SentPackets < first+n {
					if time.Since(began) > 20*time.Second {
						t.Fatalf("%d of %d packets left", host().SentPackets-first, n)
					}
					time.Sleep(time.Millisecond)
				}
			}
			send(t, packets)
			if c := host(); c.BacklogPackets < packets/2 {
				t.Fatalf("%d packets wait", c.BacklogPackets)
			}
			wait(11) // the first one leaves at once
			if took := time.Since(began); took < 190*time.Millisecond || took > 400*time.Millisecond {
				t.Errorf("11 packets took %v, want 200 ms", took)
			}
			state.Classes = slices.Clone(state.Classes) // the backend has the others
			held(&state.Classes[0], pace(5*time.Millisecond))
			must(t, b.Pace(ctx, state))
			changed := time.Now()
			wait(21)
			if took := time.Since(changed); took < 40*time.Millisecond || took > 150*time.Millisecond {
				t.Errorf("10 packets took %v, want 50 ms", took)
			}
			state = threeClasses(plan.SchedulerFair)
			must(t, b.Set(ctx, state))
			changed = time.Now()
			send(t, 1)
			wait(packets + 1)
			if took := time.Since(changed); took > 60*time.Millisecond {
				t.Errorf("what was held took %v to leave", took)
			}
			must(t, b.Cleanup(ctx))
		})
	}
}
