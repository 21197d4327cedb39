// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/core/policy"
	"weir/internal/host/dataplane/device"
)

const takes = policy.Unlimited

// told is what HTB is told, as text: rate/ceil in kbit/s, quantum in ms of the link.
func told(list []grant) string {
	out := ""
	for _, g := range list {
		out += fmt.Sprintf("%d/%d q%.1f  ", g.rate/1000, g.ceil/1000, float64(g.quantum)*8e3/100e6)
	}
	return out
}

func TestGrants(t *testing.T) {
	for _, tt := range []struct {
		name    string
		sharers []policy.Sharer
		want    string
	}{
		{"all active: the shares are the rates", []policy.Sharer{
			{Weight: 1, Demand: takes}, {Weight: 2, Demand: takes}, {Weight: 3, Demand: takes},
		}, "16666/100000 q1.0  33333/100000 q2.0  50000/100000 q3.1  "},
		{"floors: the fifth gets what is left, not a part of it", []policy.Sharer{
			{Weight: 1, Min: 30 * mbit, Demand: takes}, {Weight: 2, Min: 20 * mbit, Demand: takes},
			{Weight: 3, Min: 15 * mbit, Demand: takes}, {Weight: 4, Min: 15 * mbit, Demand: takes},
			{Weight: 5, Demand: takes},
		}, "30000/100000 q1.0  20000/100000 q1.0  15000/100000 q1.0  15555/100000 q1.0  19444/100000 q16.0  "},
		{"max is ceil", []policy.Sharer{
			{Weight: 1, Max: 10 * mbit, Demand: takes}, {Weight: 1, Demand: takes},
		}, "10000/10000 q1.0  90000/100000 q9.4  "},
		{"the idle keep a standby", []policy.Sharer{
			{Weight: 1}, {Weight: 1, Demand: takes},
		}, "500/100000 q1.0  99500/100000 q1.0  "},
		{"the idle keep their min, and the others borrow it", []policy.Sharer{
			{Weight: 1, Min: 40 * mbit}, {Weight: 1, Demand: takes}, {Weight: 3, Demand: takes},
		}, "40000/100000 q1.0  15101/100000 q1.0  44898/100000 q3.0  "},
		{"who wants less gets less", []policy.Sharer{
			{Weight: 1, Demand: 10 * mbit}, {Weight: 1, Demand: takes},
		}, "10000/100000 q1.0  90000/100000 q9.4  "},
		{"the link shrank below the mins", []policy.Sharer{
			{Weight: 1, Min: 150 * mbit, Demand: takes}, {Weight: 1, Min: 50 * mbit, Demand: takes},
		}, "66666/100000 q1.0  33333/100000 q1.0  "},
		{"a min that binds is not lent to, but has its turns", []policy.Sharer{
			{Weight: 1, Demand: takes}, {Weight: 9, Demand: takes}, {Weight: 1, Min: 30 * mbit, Demand: takes}, {Weight: 1, Min: 40 * mbit},
		}, "3231/100000 q1.7  26768/100000 q16.0  30000/100000 q1.0  40000/100000 q1.0  "},
		{"no turn is longer than 16 ms", []policy.Sharer{
			{Weight: 1, Demand: takes}, {Weight: 96, Demand: takes},
		}, "1030/100000 q1.0  98969/100000 q16.0  "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := told(grants(100*mbit, tt.sharers, make([]history, len(tt.sharers)))); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// For all requests: the rates never exceed the link, no class's rate exceeds
// its ceil, and a class with a min has it as its rate if the mins fit.
func TestGrantsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := policy.Rate(rapid.Uint64Range(100e3, 100e9).Draw(t, "capacity"))
		n := rapid.IntRange(1, 50).Draw(t, "classes")
		sharers, learned := make([]policy.Sharer, n), make([]history, n)
		free := capacity
		for i := range sharers {
			c := policy.Sharer{Weight: rapid.Uint32Range(1, policy.MaxWeight).Draw(t, "weight")}
			if rapid.Bool().Draw(t, "has min") {
				c.Min = policy.Rate(rapid.Uint64Range(0, uint64(free)/2).Draw(t, "min"))
				free -= c.Min
			}
			if rapid.Bool().Draw(t, "has max") {
				c.Max = max(c.Min, 1000) + policy.Rate(rapid.Uint64Range(0, uint64(capacity)).Draw(t, "max"))
			}
			c.Demand = rapid.SampledFrom([]policy.Rate{0, capacity / 100, capacity / 3, takes}).Draw(t, "demand")
			sharers[i] = c
			share := rapid.Uint64Range(0, uint64(capacity)).Draw(t, "former share")
			learned[i] = history{policy.Rate(share), rapid.Float64Range(-1, 1).Draw(t, "bias") * float64(share)}
		}
		var sum policy.Rate
		for i, g := range grants(capacity, sharers, learned) {
			sum += g.rate
			if g.rate > max(g.ceil, 8) {
				t.Errorf("class %d: rate %d above ceil %d", i, g.rate, g.ceil)
			}
			if g.rate+1 < sharers[i].Min {
				t.Errorf("class %d: rate %d below its min %d", i, g.rate, sharers[i].Min)
			}
			if turn := float64(g.quantum) * 8 / float64(capacity); g.quantum > device.GSOLimit(capacity) && turn > longestTurn {
				t.Errorf("class %d: quantum %d", i, g.quantum)
			}
		}
		if sum > capacity+policy.Rate(8*n) { // HTB takes no rate below a byte per second
			t.Errorf("rates add up to %d on a link of %d", sum, capacity)
		}
	})
}

// sent is a sample of one interval in which a class sent at a rate.
func sent(rate policy.Rate, waiting uint64) sample {
	return sample{sent: uint64(rate) / 8 / 5, waiting: waiting, over: 200 * time.Millisecond}
}

func TestEstimate(t *testing.T) {
	const allowed = 20 * mbit
	for _, tt := range []struct {
		name    string
		from    policy.Rate
		samples []sample
		atLeast policy.Rate
		atMost  policy.Rate
	}{
		{"packets waiting", 0, []sample{sent(1*mbit, 3)}, takes, takes},
		{"fills what it is allowed", 0, []sample{sent(19*mbit, 0)}, takes, takes},
		{"nothing sent", takes, []sample{sent(0, 0)}, 0, 0},
		{"a dip is not a change of mind", takes, []sample{sent(12*mbit, 0), sent(12*mbit, 0)}, takes, takes},
		{"but three are", takes, []sample{sent(12*mbit, 0), sent(12*mbit, 0), sent(12*mbit, 0)}, 15 * mbit, 16.4e6},
		{"one small packet of an idle class", 0, []sample{sent(4000, 0)}, 5000, 5500},
		{"more at once", 2 * mbit, []sample{sent(8*mbit, 0)}, 10 * mbit, 11 * mbit},
		{"less step by step", 8 * mbit, []sample{sent(1*mbit, 0)}, 6.9e6, 8 * mbit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := estimate{demand: tt.from}
			for _, s := range tt.samples {
				e = e.next(s, allowed)
			}
			if e.demand < tt.atLeast || e.demand > tt.atMost {
				t.Errorf("demand %d, want %d to %d", e.demand, tt.atLeast, tt.atMost)
			}
		})
	}
}

// A model of lending that is as unfair as can be (the first gets all that the idle
// leave) is put right by the correction within a second, but for the limit of what
// a rate can do.
func TestCorrectionConverges(t *testing.T) {
	sharers := []policy.Sharer{
		{Weight: 1, Demand: takes}, {Weight: 1, Demand: takes}, {Weight: 1, Min: 30 * mbit},
	}
	learned := make([]history, 3)
	var first, second policy.Rate
	for range 8 { // intervals of 200 ms
		list := grants(100*mbit, sharers, learned)
		lent := 100*mbit - list[0].rate - list[1].rate
		first, second = list[0].rate+lent, list[1].rate
		for i, rate := range []policy.Rate{first, second, 0} {
			learned[i] = history{list[i].share, list[i].bias}
			learned[i].bias = correct(learned[i], sharers[i].Demand, sent(rate, uint64(rate)))
		}
	}
	if first < 48*mbit || first > 54*mbit {
		t.Errorf("the first gets %d, the second %d, want 50 Mbit/s each", first, second)
	}
}

func TestDiffers(t *testing.T) {
	for _, tt := range []struct {
		have, want policy.Rate
		differs    bool
	}{
		{10 * mbit, 10 * mbit, false},
		{10 * mbit, 10.05e6, false},
		{10 * mbit, 10.2e6, true},
		{10.2e6, 10 * mbit, true},
		{50 * mbit, 50.4e6, false}, // less than a percent
		{0, 1 * mbit, true},
	} {
		if got := differs(100*mbit, tt.have, tt.want); got != tt.differs {
			t.Errorf("differs(%d, %d) = %v", tt.have, tt.want, got)
		}
	}
}
