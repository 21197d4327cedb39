// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"flag"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"syscall"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
)

// reactionTime is what the backend promises (Gaps): after it the shares hold.
const reactionTime = time.Second

// A workload with a min starts and stops, and then a policy changes; each time the
// shares of the second after reactionTime are within 5 Mbit/s. They move by 10 at
// least. Senders are UDP, and so have packets waiting at any moment: what TCP makes
// of its share is TestSharesHold's business. The log says when the shares held in
// fact; 0.2 to 0.5 s are typical, see Run.
func TestReaction(t *testing.T) {
	for _, tt := range []struct {
		name    string
		classes []plan.Class // the last one starts and stops
		after   []plan.Class // the policy is changed to this while it is away
	}{
		{
			"its min is lent by weight",
			[]plan.Class{{Weight: 1}, {Weight: 3}, {Weight: 1, Min: 40 * mbit}},
			[]plan.Class{{Weight: 3}, {Weight: 1}, {Weight: 1, Min: 40 * mbit}},
		},
		{
			"its min is most of the link",
			[]plan.Class{{Weight: 1}, {Weight: 1}, {Weight: 1, Min: 80 * mbit}},
			[]plan.Class{{Weight: 1}, {Weight: 4}, {Weight: 1, Min: 80 * mbit}},
		},
		{
			"its min is lent to another one with a min",
			[]plan.Class{{Weight: 1}, {Weight: 3, Min: 30 * mbit}, {Weight: 1, Min: 40 * mbit}},
			[]plan.Class{{Weight: 1}, {Weight: 1, Min: 30 * mbit}, {Weight: 1, Min: 40 * mbit}},
		},
		{
			"its min is lent beside one that is held up by its own",
			[]plan.Class{{Weight: 1}, {Weight: 1}, {Weight: 1, Min: 40 * mbit}, {Weight: 1, Min: 40 * mbit}},
			[]plan.Class{{Weight: 1}, {Weight: 5}, {Weight: 1, Min: 40 * mbit}, {Weight: 1, Min: 40 * mbit}},
		},
		{
			"it has none",
			[]plan.Class{{Weight: 1, Min: 30 * mbit}, {Weight: 1}, {Weight: 3}},
			[]plan.Class{{Weight: 1, Min: 60 * mbit}, {Weight: 1}, {Weight: 3}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t, len(tt.classes))
			backend := b.backend()
			s, after := b.state(tt.classes...), b.state(tt.after...)
			b.Set(backend, s)
			b.run(backend)
			var all []plan.ClassID
			for i := range tt.classes {
				b.traffic(i+1, "-u", "-b", "97M", "-l", "1400")
				all = append(all, plan.ClassID(i+1))
			}
			others, last := all[:len(all)-1], fmt.Sprintf("c%d", len(all))
			b.rates(backend, time.Second, 0)
			changes := []change{
				{last + " stops", func() { b.Netns.Run("ip", "link", "set", last, "down") }, ideal(s, others...)},
				{last + " starts", func() { b.Netns.Run("ip", "link", "set", last, "up") }, ideal(s, all...)},
				{last + " stops again", func() { b.Netns.Run("ip", "link", "set", last, "down") }, ideal(s, others...)},
				{"the policy changes", func() { b.Set(backend, after) }, ideal(after, others...)},
			}
			for range 3 {
				if b.react(backend, changes) {
					return
				}
				b.Set(backend, s)
				b.Netns.Run("ip", "link", "set", last, "up")
				b.rates(backend, time.Second, 0)
			}
			t.Skip("skipped: three times there was too little CPU time to fill queues or link")
		})
	}
}

// change is something to which the shares have to adapt.
type change struct {
	what string
	make func()
	want map[plan.ClassID]float64 // shares after it, Mbit/s
}

// react makes the changes, until one of them tells nothing.
func (b *bed) react(backend *Backend, changes []change) (conclusive bool) {
	b.T.Helper()
	for _, c := range changes {
		c.make()
		if !b.follow(c.what, backend, c.want, 5) {
			return false
		}
	}
	return true
}

// follow watches for reactionTime and the second that comes after it, and checks
// that second's rates against ideal ones, in Mbit/s. It tells nothing if a class
// that sent too little had no packets waiting: then its sender is to blame; nor if they sent less
// than the link together: then the kernel had too little CPU time.
func (b *bed) follow(what string, backend *Backend, want map[plan.ClassID]float64, tolerance float64) (conclusive bool) {
	b.T.Helper()
	const window = 100 * time.Millisecond
	start := time.Now()
	ticker := time.NewTicker(window)
	defer ticker.Stop()
	before := b.Counters(backend)
	var held time.Duration // since when every window is within the tolerance
	var settled dataplane.LinkCounters
	empty := map[plan.ClassID]bool{} // classes that were seen without a packet
	for now := before; now.At.Sub(start) < reactionTime+time.Second; before = now {
		<-ticker.C
		now = b.Counters(backend)
		if off(between(before, now), want) > tolerance {
			held = now.At.Sub(start)
		}
		if now.At.Sub(start) < reactionTime {
			continue
		}
		if settled.At.IsZero() {
			settled = now
		}
		for id, c := range now.Classes {
			empty[id] = empty[id] || c.BacklogPackets == 0
		}
	}
	got := between(settled, before)
	b.T.Logf("%s: held after %v; then%s", what, held.Round(window), beside(got, want))
	if off(got, want) <= tolerance {
		return true
	}
	var sent, all float64
	for id, rate := range got {
		sent, all = sent+rate, all+want[id]
	}
	if sent < 0.95*all {
		b.T.Logf("%s: tells nothing, the link carried %.1f of %.1f Mbit/s", what, sent, all)
		return false
	}
	for id, rate := range got {
		if rate < want[id]-1 && empty[id] {
			b.T.Logf("%s: tells nothing, the queue of class %d was empty at times", what, id)
			return false
		}
	}
	b.T.Errorf("%s: %v later want shares within %.1f Mbit/s, have%s", what, reactionTime, tolerance, beside(got, want))
	return true
}

// between is what each class sent between two snapshots, in Mbit/s.
func between(from, to dataplane.LinkCounters) map[plan.ClassID]float64 {
	rates := make(map[plan.ClassID]float64)
	for id, c := range to.Classes {
		rates[id] = float64(c.SentBytes-from.Classes[id].SentBytes) * 8 / to.At.Sub(from.At).Seconds() / 1e6
	}
	return rates
}

// beside is what classes send, with what they should.
func beside(got, want map[plan.ClassID]float64) (line string) {
	for id := range plan.ClassID(len(got)) {
		line += fmt.Sprintf("  class %d %.2f (ideal %.2f)", id, got[id], want[id])
	}
	return line
}

// off is how far the worst class is from what it should have, in Mbit/s.
func off(got, want map[plan.ClassID]float64) float64 {
	worst := 0.0
	for id, rate := range got {
		worst = max(worst, math.Abs(rate-want[id]))
	}
	return worst
}

// Looking at 1,000 classes costs a few percent of a processor at most, five times a
// second; it is measured in CPU time, so that a busy machine does not matter.
func TestLookingIsCheap(t *testing.T) {
	const classes = 1000
	b := newBed(t, 0)
	b.Opts.StateDir = t.TempDir()
	backend := b.backend()
	backend.log = slog.New(slog.DiscardHandler)
	s := b.state()
	for id := plan.ClassID(1); id <= classes; id++ {
		s.Classes = append(s.Classes, plan.Class{ID: id, Name: fmt.Sprint("c", id), Weight: uint32(id), Min: policy.Rate(id%5) * mbit / 100})
	}
	b.Set(backend, s)
	now := time.Now()
	look := func() {
		now = now.Add(interval)
		if err := backend.step(now); err != nil {
			t.Fatal(err)
		}
	}
	const looks = 20
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	from := threadTime(t)
	look()
	look() // this one finds that no class sends, and tells HTB
	t.Logf("two looks, and telling HTB %d new rates, cost %v of CPU time", classes, threadTime(t)-from)
	from = threadTime(t)
	for range looks {
		look()
	}
	cost := (threadTime(t) - from) / looks
	t.Logf("a look at %d classes costs %v of CPU time, %.1f %% of one processor", classes, cost, 100*cost.Seconds()/interval.Seconds())
	if most := costly(interval / 10); cost > most {
		t.Errorf("a look at %d classes costs %v of CPU time, want %v at most", classes, cost, most)
	}
}

var instructions = flag.Bool("instructions", false, "CPU time counts instructions, of which one takes a nanosecond: in a machine with virtual time")

// costly returns the CPU time that is too much if this much is too much for a processor. They do
// two instructions in a nanosecond or more.
func costly(d time.Duration) time.Duration {
	if *instructions {
		return 2 * d
	}
	return d
}

// threadTime is the CPU time of the calling thread, the kernel's work for it included.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
