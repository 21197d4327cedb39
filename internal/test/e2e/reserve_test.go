// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
)

// needsSchedules skips a test where the backend has no future service times.
func needsSchedules(t *testing.T) {
	t.Helper()
	if !onBPF() {
		t.Skip("skipped: the tc fallback holds reservations by ceils, not by schedules; a VM (vm/run) has them")
	}
}

// reserve asks for a goodput as a user does.
func (b *bed) reserve(name string, goodput policy.Rate, more ...string) {
	b.t.Helper()
	b.weir(append([]string{"set", name, "--reserve", fmt.Sprintf("%dbit", goodput)}, more...)...)
}

// control returns the first loop of "weir control NAME -o json".
func (b *bed) control(name string) api.ControlLoop {
	b.t.Helper()
	var c api.Control
	if err := json.Unmarshal([]byte(b.weir("control", name, "-o", "json")), &c); err != nil {
		b.t.Fatal(err)
	}
	if len(c.Loops) != 1 {
		b.t.Fatalf("%s has %d controllers", name, len(c.Loops))
	}
	return c.Loops[0]
}

// controlled waits until a controller says that the goodput is at its target.
func (b *bed) controlled(name string) {
	b.t.Helper()
	took := await(b.t, 15*time.Second, "goodput of "+name+" at its target", func() error {
		if l := b.control(name); l.Mode != "settled" {
			return fmt.Errorf("%s: %s", l.Mode, l.Why)
		}
		return nil
	})
	b.t.Logf("%s is settled after %.1f s", name, took.Seconds())
}

// inForce returns a class as the kernel has it, past the agent.
func (b *bed) inForce(number uint16) plan.Class {
	b.t.Helper()
	c, err := b.readClass(number)
	if err != nil {
		b.t.Fatalf("read what is in force: %v", err)
	}
	return c
}

func (b *bed) readClass(number uint16) (c plan.Class, err error) {
	err = b.host.do(func() error {
		backend, err := b.backend(0)
		if err != nil {
			return err
		}
		defer backend.Close()
		state, err := backend.State()
		if err != nil {
			return err
		}
		var ok bool
		if c, ok = state.Class(plan.ClassID(number)); !ok {
			return fmt.Errorf("there is no class %d", number)
		}
		return nil
	})
	return c, err
}

// watchInterval looks at a class's interval all the time, until it is told to stop; then
// it says by which part it was off one at most.
func (b *bed) watchInterval(number uint16, from plan.Interval) (stop func() (worst float64)) {
	ended, result := make(chan struct{}), make(chan float64)
	go func() {
		worst := 0.0
		for {
			select {
			case <-ended:
				result <- worst
				return
			case <-time.After(50 * time.Millisecond):
			}
			c, err := b.readClass(number)
			if err != nil {
				b.t.Errorf("read what is in force: %v", err)
				continue
			}
			worst = max(worst, math.Abs(float64(c.Interval)/float64(from)-1))
		}
	}()
	return func() float64 { close(ended); return <-result }
}

// A reservation outlives the agent: the interval that the controller found stays in
// force, the payload stays at its target, and the next agent goes on from there.
// The workload's segments are small, so that what headers of full ones take, where a
// new controller begins, would be 6 % short.
func TestReservationOutlivesTheAgent(t *testing.T) {
	needsSchedules(t)
	b := newBed(t, 2, 1)
	b.configure("")
	a := b.start()
	b.steered(a)
	b.boxes[0].run("ip link set eth0 mtu 600")
	target := b.capacity * 3 / 10
	b.reserve("w1", target)
	k, stream := b.takes(takePort, otherTakePort), streamOf(1, takePort)
	b.uploads(1, takePort)
	b.uploads(2, otherTakePort)
	b.controlled("w1")
	k.heldWithin(t, "with an agent", 3, stream, float64(target), 0.005, 0.02)
	b.healthy()

	number, qdisc := a.workload("w1").Class, b.rootQdisc(0)
	a.kill()
	left := b.inForce(number)
	if found := left.Interval.Rate() / float64(policy.WireOf(target, 0)); found < 1.05 {
		t.Errorf("small segments should take more on the wire than full ones, and take %.3f of it", found)
	}
	k.heldWithin(t, "without", 4, stream, float64(target), 0.005, 0.02)
	if now := b.inForce(number); now.Interval != left.Interval {
		t.Errorf("the interval was %v, and is %v though no agent was there", left.Interval, now.Interval)
	}

	moved := b.watchInterval(number, left.Interval)
	a = b.start()
	b.steered(a)
	k.heldWithin(t, "with the next agent", 4, stream, float64(target), 0.005, 0.02)
	worst := moved()
	t.Logf("meanwhile the interval moved by %.3f %% at most", 100*worst)
	if worst > 0.01 {
		t.Errorf("the next agent moved the interval by %.2f %%, should begin where the last one was", 100*worst)
	}
	b.controlled("w1")
	if now := b.rootQdisc(0); now != qdisc {
		t.Errorf("qdisc was %q, is %q", qdisc, now)
	}
}

// One queue of a workload has its reservation, whatever the discipline, beside
// another queue and another workload that take all they can; what it leaves of the
// workload's share is the other queue's.
func TestReservationOfAQueue(t *testing.T) {
	needsSchedules(t)
	for _, test := range []struct {
		discipline string
		queues     []string
	}{
		{"pq", []string{"video: {match: [{tcp: 7004}]}", "rest: {}"}},
		{"cbwfq", []string{"video: {min: 8mbit, match: [{tcp: 7004}]}", "rest: {min: 1mbit}"}},
		{"llq", []string{"voice: {rate: 1mbit, match: [{udp: 5001}]}", "video: {min: 8mbit, match: [{tcp: 7004}]}", "rest: {min: 1mbit}"}},
	} {
		if !*long && test.discipline != "cbwfq" {
			continue
		}
		t.Run(test.discipline, func(t *testing.T) {
			b := newBed(t, 2, 1)
			b.configure("")
			a := b.start()
			b.steered(a)
			b.discipline("w1", test.discipline, test.queues...)
			target := b.capacity / 4 // the workload has half
			b.reserve("w1", target, "--queue", "video")
			k := b.takes(takePort, otherTakePort)
			b.uploads(1, takePort)
			b.uploads(1, otherTakePort)
			b.uploads(2, otherTakePort)
			b.controlled("w1")
			if l := b.control("w1"); l.Queue != "video" || l.TargetBps != float64(target) {
				t.Errorf("the controller is of queue %q with a target of %.0f", l.Queue, l.TargetBps)
			}
			before := k.now()
			k.heldWithin(t, "video", 6, streamOf(1, takePort), float64(target), 0.005, 0.02)
			now := k.now()
			rest, other := now.since(before, streamOf(1, otherTakePort)), now.since(before, streamOf(2, otherTakePort))
			half := float64(policy.GoodputOf(b.capacity/2, 0))
			t.Logf("the other queue has %.2f, the other workload %.2f Mbit/s; a half of the link carries %.2f", rest/1e6, other/1e6, half/1e6)
			if got := rest + float64(target); math.Abs(got/half-1) > 0.03 || math.Abs(other/half-1) > 0.03 {
				t.Errorf("w1 has %.2f, w2 %.2f Mbit/s of payload, should be %.2f each", got/1e6, other/1e6, half/1e6)
			}
		})
	}
}

// How much a reservation may be off while its target changes every second. A swing is the
// largest less the smallest ratio of the rate on the wire to the rate that full segments
// of the target take: 0 if the controller adds nothing to the changes themselves, and
// growing where a loop oscillates.
const (
	mostSwing      = 0.03
	mostOffASecond = 0.05
)

// The target changes every second at random, at times above the free capacity, and the
// agent is killed in the middle. The payload follows, the loop adds no oscillation of its
// own, no workload exceeds its admitted rate, a workload with a min has it in every
// second, and the last interval holds while no agent is there.
func TestTargetsAtRandom(t *testing.T) {
	needsSchedules(t)
	seconds := 16
	if *long {
		seconds = 600
	}
	b := newBed(t, 2, 1)
	b.configure("workloads:\n  w2: {min: 20%}\n")
	a := b.start()
	b.steered(a)
	number := a.workload("w1").Class
	free := policy.GoodputOf(b.capacity-b.capacity/5, 0)
	k, stream, beside := b.takes(takePort, otherTakePort), streamOf(1, takePort), streamOf(2, otherTakePort)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))

	target := free / 2
	b.reserve("w1", target)
	b.uploads(1, takePort)
	b.uploads(2, otherTakePort)
	b.controlled("w1")
	var offs, found []float64
	refused, least := 0, math.Inf(1)
	// follows looks at one second under the target: all of it but the first tenth, in
	// which TCP gets there.
	follows := func(what string) {
		t.Helper()
		<-time.After(100 * time.Millisecond)
		before := k.now()
		<-time.After(900 * time.Millisecond)
		now := k.now()
		off := now.since(before, stream)/float64(target) - 1
		offs = append(offs, math.Abs(off))
		ratio := b.inForce(number).Interval.Rate() / float64(policy.WireOf(target, 0))
		found = append(found, ratio)
		least = min(least, now.since(before, beside))
		if math.Abs(off) > mostOffASecond {
			t.Errorf("%s: %.3f Mbit/s of payload, reserved %.3f, off by %.1f %%", what, now.since(before, stream)/1e6, float64(target)/1e6, 100*off)
		}
	}
	for n := range seconds {
		if n == seconds/2 {
			a.kill()
			left := b.inForce(number).Interval
			for range 4 {
				follows(fmt.Sprintf("second %d, without an agent", n))
			}
			if now := b.inForce(number).Interval; now != left {
				t.Errorf("the interval was %v, and is %v though no agent was there", left, now)
			}
			a = b.start()
			b.steered(a)
		}
		next := policy.Rate((0.05 + 1.15*draw.Float64()) * float64(free))
		text := fmt.Sprintf("%dbit", next)
		_, err := a.Set(context.Background(), "w1", apitest.Change("reserve", text), false)
		var no *refusal.Error
		switch {
		case err == nil && next <= free:
			target = next
		case errors.As(err, &no) && no.Field == "reserve" && no.Remedy != "" && next > free*99/100:
			refused++
		default:
			t.Fatalf("second %d: a reservation of %d bit/s with %d free: %v", n, next, free, err)
		}
		follows(fmt.Sprintf("second %d", n))
	}
	slices.Sort(offs)
	swing := slices.Max(found) - slices.Min(found)
	t.Logf("%d targets, %d refused; off by %.2f %% in the median, %.2f %% at most; ratio on the wire %.4f to %.4f, a swing of %.2f %%; w2 never below %.2f Mbit/s",
		seconds, refused, 100*offs[len(offs)/2], 100*offs[len(offs)-1], slices.Min(found), slices.Max(found), 100*swing, least/1e6)
	if swing > mostSwing {
		t.Errorf("the loop swings by %.1f %%", 100*swing)
	}
	if most := slices.Max(found); most > 1.02 {
		t.Errorf("%.3f of what was admitted was let go", most)
	}
	if promised := float64(policy.GoodputOf(b.capacity/5, 0)); least < 0.97*promised {
		t.Errorf("w2 had %.3f Mbit/s of payload in one second, its min carries %.3f", least/1e6, promised/1e6)
	}
}
