// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"weir/internal/core/policy"
)

// Workloads with a device in each of two networks, and an agent with two links:
// each link is divided for itself, with one number for each workload.
func TestTwoLinks(t *testing.T) {
	b := newBed(t, 2, 2)
	b.capacity /= 2 // the machine has to send it twice
	b.configure("workloads:\n  w1: {max: 20%}\n  w2: {weight: 3}\n")
	a := b.start()
	b.steered(a)
	b.flood(0, 1, 0.4)
	b.flood(0, 2, 0.9)
	b.flood(1, 1, 0.4) // alone on its link: its max binds
	b.warmUp()
	w1, w2 := policy.Policy{Weight: 1, Max: policy.Amount{Percent: 20}}, policy.Policy{Weight: 3}
	b.same("up0, both", b.full(0, time.Second), b.ideal(w1, w2), unchanged)
	b.same("up1, w1 alone", b.rates(1, time.Second), append(b.ideal(w1), 0), unchanged)
	b.healthy()
	number := a.workload("w1").Class
	for n := range b.nets {
		s := b.counters(n)
		b.addUp(s)
		if class(s, number).SentPackets == 0 || class(s, 0).SentPackets > 0 {
			t.Errorf("%s: w1, class %d, sent %d packets, the host %d", b.nets[n].uplink, number,
				class(s, number).SentPackets, class(s, 0).SentPackets)
		}
	}
	if n := len(a.workload("w1").Links); n != 2 {
		t.Errorf("w1 is shown on %d links", n)
	}
	a.stop()
	b.weir("cleanup", "--config", b.configFile(), "--link", "up1")
	b.same("up0, after up1 was given back", b.full(0, time.Second), b.ideal(w1, w2), unchanged)
}

// Two agents in two network namespaces of one machine, with devices of the same
// names and the same indices, know nothing of each other.
func TestTwoAgents(t *testing.T) {
	b := newNamedBed(t, "one-", 2, 1)
	c := newNamedBed(t, "two-", 2, 1)
	b.capacity, c.capacity = b.capacity/2, c.capacity/2 // the machine has to send both
	b.configure("workloads:\n  w2: {weight: 3}\n")
	c.configure("workloads:\n  w1: {weight: 2}\n")
	if x, y := b.host.device("w1").Attrs().Index, c.host.device("w1").Attrs().Index; x != y {
		t.Fatalf("the devices have different indices, %d and %d: this would test nothing", x, y)
	}
	first, second := b.start(), c.start()
	b.steered(first)
	c.steered(second)
	for _, bed := range []*bed{b, c} {
		bed.flood(0, 1, 0.8)
		bed.flood(0, 2, 0.9)
	}
	shares13 := b.ideal(policy.Policy{Weight: 1}, policy.Policy{Weight: 3})
	shares21 := c.ideal(policy.Policy{Weight: 2}, policy.Policy{Weight: 1})
	b.warmUp()
	b.same("first agent", b.full(0, time.Second), shares13, unchanged)
	c.same("second agent", c.full(0, time.Second), shares21, unchanged)

	// Each agent takes over its own state, and gives it back.
	qdisc := c.rootQdisc(0)
	first.kill()
	second.kill()
	first, second = b.start(), c.start()
	b.steered(first)
	c.steered(second)
	if got := c.rootQdisc(0); got != qdisc {
		t.Errorf("the second's qdisc was %q, is %q", qdisc, got)
	}
	b.same("first agent, again", b.full(0, time.Second), shares13, unchanged)
	first.stop()
	b.weir("cleanup", "--config", b.configFile())
	c.same("second, the first cleaned up", c.full(0, time.Second), shares21, unchanged)
	second.kill()
	second = c.start()
	c.steered(second)
	if got := c.rootQdisc(0); got != qdisc {
		t.Errorf("the second's qdisc was %q, is %q", qdisc, got)
	}
	c.same("second agent, again", c.full(0, time.Second), shares21, unchanged)
}
