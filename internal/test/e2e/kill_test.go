// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"weir/internal/api/apitest"
	"weir/internal/core/policy"
)

// unchanged is how much of the link a rate may move by.
const unchanged = 0.03

// An agent that is killed leaves the kernel scheduling; the next one takes over
// what it finds, and no packet is lost to it.
func TestAgentKilledUnderLoad(t *testing.T) {
	b := newBed(t, 3, 1)
	b.configure("workloads:\n  w1: {weight: 1}\n  w2: {weight: 2}\n  w3: {weight: 1, min: 40%}\n")
	a := b.start()
	b.steered(a)
	b.weir("set", "w2", "--weight", "3")
	b.weir("set", "w1", "--max", "45%")

	streams := []flow{b.flood(0, 1, 0.3), b.flood(0, 3, 0.6)}
	b.tcp(0, 2)
	b.warmUp()
	ideal := b.ideal(
		policy.Policy{Weight: 1, Max: policy.Amount{Percent: 45}},
		policy.Policy{Weight: 3},
		policy.Policy{Weight: 1, Min: policy.Amount{Percent: 40}})
	window := 2 * time.Second
	if *long {
		window = 10 * time.Second
	}
	before := b.full(0, window)
	b.same("with an agent", before, ideal, unchanged)
	was, qdisc, counted := b.get(), b.rootQdisc(0), b.counters(0)

	a.kill()
	b.same("without", b.full(0, window), before, unchanged)

	restarted := time.Now()
	b.start()
	right := await(t, 5*time.Second, "weir get is right", func() error {
		now := b.get()
		for i := range b.boxes {
			name := fmt.Sprintf("w%d", i+1)
			if now[name].Class != was[name].Class || !reflect.DeepEqual(now[name].Policy, was[name].Policy) || now[name].State != "active" {
				t.Fatalf("%s was class %d %+v, is class %d %+v, %s", name, was[name].Class, was[name].Policy,
					now[name].Class, now[name].Policy, now[name].State)
			}
			if got := now[name].Links[0].RateBps; math.Abs(got-before[i]*1e6) > 0.05*float64(b.capacity) {
				return fmt.Errorf("%s: rate %.1f Mbit/s, measured %.1f", name, got/1e6, before[i])
			}
		}
		return nil
	})
	if onBPF() && right > 2*time.Second {
		t.Errorf("weir get is right %v after the agent answers, should be within 2 s", right)
	}
	t.Logf("weir get is right %.1f s after the agent answers, %.1f s after its start", right.Seconds(), time.Since(restarted).Seconds())
	b.same("with the next agent", b.full(0, window), before, unchanged)

	if got := b.rootQdisc(0); got != qdisc {
		t.Errorf("qdisc was %q, is %q", qdisc, got)
	}
	after := b.counters(0)
	b.addUp(after)
	if n := drops(after, "reset", "link_packets", "link_bytes"); n > 0 {
		t.Errorf("%d packets dropped with the agent", n)
	}
	for id, c := range counted.Classes {
		if after.Classes[id].SentPackets < c.SentPackets {
			t.Errorf("class %d: %d packets sent before, %d after", id, c.SentPackets, after.Classes[id].SentPackets)
		}
	}
	b.accounted(streams, was["w1"].Class, was["w3"].Class)
}

// An agent that is killed at any moment, also in the middle of a change, leaves
// what the next one can make whole.
func TestKilledAnywhere(t *testing.T) {
	kills := 6
	if *long {
		kills = 40
	}
	b := newBed(t, 3, 1)
	b.configure("workloads:\n  \"w*\": {min: 10%}\n")
	stream := b.udp(0, 1, 0.05) // below its min, whatever happens
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	a := b.start()
	b.steered(a)
	class1, counted := a.workload("w1").Class, b.counters(0)
	for range kills {
		changing := make(chan struct{})
		go func(a *agent) {
			defer close(changing)
			for n := uint32(1); ; n++ { // until the agent is dead
				if _, err := a.Set(context.Background(), "w2", apitest.Change("weight", fmt.Sprint(n)), false); err != nil {
					return
				}
			}
		}(a)
		<-time.After(time.Duration(draw.IntN(300)) * time.Millisecond)
		a.kill()
		<-changing
		a = b.launchAgent() // and this one may not even live to answer
		<-time.After(time.Duration(draw.IntN(300)) * time.Millisecond)
		a.kill()
		a = b.start()
	}
	b.steered(a)
	b.weir("set", "w2", "--weight", "2")
	if got := a.workload("w1").Class; got != class1 {
		t.Errorf("w1 was class %d, is class %d", class1, got)
	}
	sent, lost := b.settle(stream)
	t.Logf("%d kills, %d packets sent, %d lost", 2*kills, sent, lost)
	if lost[0] > 0 {
		t.Errorf("of %d packets, %d were lost", sent, lost)
	}
	now := b.counters(0)
	b.addUp(now)
	if n := class(now, class1).SentPackets; n < class(counted, class1).SentPackets {
		t.Errorf("class %d was made anew", class1)
	}
	b.flood(0, 2, 0.9)
	b.flood(0, 3, 0.9)
	b.warmUp()
	b.same("afterwards", b.full(0, time.Second)[1:], b.ideal(policy.Policy{Weight: 2}, policy.Policy{Weight: 1}), unchanged)
}
