// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
)

// askWaits has the simulator print for how long packets of a class have waited.
func (s *simulation) askWaits(id plan.ClassID) { fmt.Fprintln(s, "waits", id) }

// waitsOf returns what a class's packets say of its times of waiting, each of which begins when a
// second packet comes and ends when none is left.
func waitsOf(packets []departure) (w waitTimes) {
	type step struct {
		at    time.Duration
		comes bool
		bytes int
	}
	var steps []step
	for _, p := range packets {
		steps = append(steps, step{p.born, true, 0}, step{p.at, false, p.length})
	}
	// A packet that need not wait leaves at the instant at which it comes.
	slices.SortStableFunc(steps, func(x, y step) int {
		if c := cmp.Compare(x.at, y.at); c != 0 || x.comes == y.comes {
			return c
		}
		if x.comes {
			return -1
		}
		return 1
	})
	var since time.Duration
	n := 0
	for _, s := range steps {
		if s.comes {
			if n++; n == 2 && since == 0 {
				since = s.at
			}
			continue
		}
		n--
		if since != 0 {
			w.bytes += uint64(s.bytes)
			if n == 0 {
				w.time += s.at - since
				since = 0
			}
		}
	}
	return w
}

// TestWaitsAreRight: a class's times of waiting, and the bytes that it sent in them, are those of
// its packets, for bursts of any size and rhythm beside others that take all they can get.
func TestWaitsAreRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bursty := port(rapid.SampledFrom([]discipline.Name{discipline.SFQ, discipline.FIFO}).Draw(t, "discipline"))
		bursty.ID, bursty.Min = 1, 5e6
		bursty.Limit = plan.Limit{Packets: 10000, Bytes: 8 << 20}
		s := simulate(fairLink(20e6), bursty, plan.Class{ID: 2, Weight: 3}, plan.Class{ID: 3, Weight: 1})
		s.send(traffic{id: 2, length: frames, window: 20, delay: time.Millisecond})
		s.trace(1)
		at := 1100 * time.Millisecond
		for range rapid.IntRange(1, 12).Draw(t, "bursts") {
			for range rapid.IntRange(1, 120).Draw(t, "packets") {
				fmt.Fprintln(s, "packet", bursty.ID, 1000, at.Nanoseconds())
				at += 1009 * time.Nanosecond // no two come at one instant
			}
			at += time.Duration(rapid.IntRange(1, 300_000).Draw(t, "after")) * time.Microsecond
		}
		s.run(at + 5*time.Second) // all of it has left
		s.askWaits(1)
		got := s.result(t)[0]
		if n := got.dropped[1]; n > 0 {
			t.Fatalf("%d packets were dropped, so their times are not known", n)
		}
		want, has := waitsOf(got.left[1]), got.waits[1]
		if has != want {
			t.Fatalf("packets waited for %v, and %d bytes left meanwhile; counted are %v and %d\n%s", want.time, want.bytes, has.time, has.bytes, s)
		}
	})
}

// TestWaitsOfPings: a packet that is alone is no sign of want, however long it has to wait, and a
// class that always has packets waits all the time.
func TestWaitsOfPings(t *testing.T) {
	s := simulate(fairLink(20e6), plan.Class{ID: 1, Weight: 1}, plan.Class{ID: 2, Weight: 1})
	s.send(traffic{id: 1, length: 98, interval: 10 * time.Millisecond})
	s.send(traffic{id: 2, length: frames, window: 40, delay: time.Microsecond})
	s.run(10 * time.Second)
	s.askWaits(1)
	s.askWaits(2)
	got := s.result(t)[0]
	if w := got.waits[1]; w != (waitTimes{}) {
		t.Errorf("pings wait for %v", w)
	}
	if w := got.waits[2]; w.time < 9990*time.Millisecond || float64(w.bytes) < 0.999*got.sent[2] {
		t.Errorf("a class that always has packets waits for %v of 10 s, and sent %d of %.0f bytes meanwhile", w.time, w.bytes, got.sent[2])
	}
}

// TestMinIsGotWhileAClassWaits: a sender in bursts, paced or on and off, whatever it asks for, gets
// its min in each second for as long as its packets wait, beside others that take all they can get.
// The promise score of the agent rests on it: internal/host/agent/usage.
func TestMinIsGotWhileAClassWaits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const capacity = 20e6
		class := port(rapid.SampledFrom([]discipline.Name{discipline.SFQ, discipline.FIFO}).Draw(t, "discipline"))
		class.ID, class.Min = 1, policy.Rate(rapid.IntRange(500_000, 15_000_000).Draw(t, "min"))
		class.Limit = plan.Limit{Packets: 10000, Bytes: 8 << 20}
		s := simulate(fairLink(capacity), class, plan.Class{ID: 2, Weight: 3}, plan.Class{ID: 3, Weight: 1})
		for id := plan.ClassID(2); id <= 3; id++ {
			s.send(traffic{id: id, length: frames, window: 20, delay: time.Millisecond})
		}
		const seconds = 8
		demand := float64(class.Min) * rapid.Float64Range(0.05, 1.5).Draw(t, "of its min")
		burst := rapid.IntRange(1, 200).Draw(t, "packets at once")
		on := rapid.Float64Range(0.1, 1).Draw(t, "part of a second")
		for n := range 4000 {
			at := 1 + on*float64(n/burst*burst)*frames*8/demand
			at += float64(int((at-1)/on)) * (1 - on) // off for the rest of each second
			if at > seconds-1 {
				break
			}
			fmt.Fprintln(s, "packet", 1, frames, int64(at*1e9)+int64(n%burst)*1009)
		}
		for range seconds {
			s.run(time.Second)
			s.askWaits(1)
		}
		var before waitTimes
		for i, p := range s.result(t) {
			w := p.waits[1]
			got := 8 * float64(w.bytes-before.bytes)
			owed := float64(class.Min) * ((w.time - before.time).Seconds() - 0.01)
			if got < 0.99*owed-8*frames {
				t.Fatalf("second %d: it got %.0f bits while it waited for %v, and was owed %.0f", i, got, w.time-before.time, owed)
			}
			before = w
		}
	})
}
