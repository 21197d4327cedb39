// SPDX-License-Identifier: Apache-2.0

package algorithm1

import (
	"math"
	"math/rand/v2"
	"testing"

	"weir/internal/core/policy"
	"weir/internal/lab/scenario"
)

const m = 1e6

// contract is what Weir promises to workloads that always send.
func contract(capacity float64, list []scenario.Policy, wanted []float64) []float64 {
	var sharers []policy.Sharer
	for i, p := range list {
		c := policy.Sharer{Weight: p.Weight, Min: p.Min, Max: p.Max, Demand: policy.Unlimited}
		if wanted != nil {
			c.Demand = policy.Rate(wanted[i])
		}
		sharers = append(sharers, c)
	}
	var rates []float64
	for _, s := range policy.Divide(policy.Rate(capacity), sharers).Shares {
		rates = append(rates, s.Bps)
	}
	return rates
}

func compare(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > 10 {
			t.Errorf("%s: workload %d: %.4f Mbit/s, want %.4f", what, i+1, got[i]/m, want[i]/m)
		}
	}
}

// TestEquationsAreTheContract has the two worked examples of the contract, and single mins and
// maxes drawn at random: with one that binds the paper's equations divide as Weir does, while
// Algorithm 1 depends on the order.
func TestEquationsAreTheContract(t *testing.T) {
	for _, c := range []struct {
		list []scenario.Policy
		want []float64
	}{
		{[]scenario.Policy{{Weight: 1, Min: 30 * m}, {Weight: 2}, {Weight: 3}}, []float64{30 * m, 28 * m, 42 * m}},
		{[]scenario.Policy{{Weight: 1}, {Weight: 1, Max: 10 * m}, {Weight: 1}}, []float64{45 * m, 10 * m, 45 * m}},
	} {
		compare(t, "equations", Equations(100*m, c.list), c.want)
		compare(t, "contract", contract(100*m, c.list, nil), c.want)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		list := make([]scenario.Policy, 2+rng.IntN(6))
		for i := range list {
			list[i].Weight = 1 + rng.Uint32N(9)
		}
		one := &list[rng.IntN(len(list))]
		if rng.IntN(2) == 0 {
			one.Min = policy.Rate(1+rng.IntN(99)) * m
		} else {
			one.Max = policy.Rate(1+rng.IntN(99)) * m
		}
		compare(t, "one bound", Equations(100*m, list), contract(100*m, list, nil))
	}
}

// TestTwoMinsAreMoreThanTheLink: a workload that is held at its own min is counted among those that
// pay for another's.
func TestTwoMinsAreMoreThanTheLink(t *testing.T) {
	list := []scenario.Policy{{Weight: 1, Min: 30 * m}, {Weight: 2, Min: 20 * m}, {Weight: 3}, {Weight: 4}, {Weight: 5}}
	if got := sum(Equations(100*m, list)); math.Abs(got-103.846e6) > 1e3 {
		t.Errorf("%.3f Mbit/s, want 103.846", got/m)
	}
}

// TestWhatIsNotUsedGoesToAll has weights and demands drawn at random: by equations 2 to 5 the
// others get it as by the contract, as long as there is one that wants all.
func TestWhatIsNotUsedGoesToAll(t *testing.T) {
	compare(t, "the third is idle", Used(100*m, []scenario.Policy{{Weight: 1}, {Weight: 2}, {Weight: 3}}, []float64{1e12, 1e12, 0}),
		[]float64{100 * m / 3, 200 * m / 3, 0})
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		list, wanted := make([]scenario.Policy, 3), make([]float64, 3)
		for i := range list {
			list[i].Weight, wanted[i] = 1+rng.Uint32N(5), 1e12
		}
		wanted[rng.IntN(3)] = float64(rng.IntN(30)) * m
		compare(t, "one wants little", Used(100*m, list, wanted), contract(100*m, list, wanted))
	}
}

// TestPrintedDoesNotFillTheLink: Algorithm 1 with a total that nothing corrects.
func TestPrintedDoesNotFillTheLink(t *testing.T) {
	for _, c := range []struct {
		name string
		list []scenario.Policy
		want float64 // of the link
	}{
		{"three equal, the second with a max", []scenario.Policy{{Weight: 1}, {Weight: 1, Max: 10 * m}, {Weight: 1}}, 0.8444},
		{"figure 11, last case", []scenario.Policy{{Weight: 1, Min: 30 * m}, {Weight: 2}, {Weight: 3, Max: 15 * m}}, 0.7389},
		{"figure 10, last case", []scenario.Policy{{Weight: 1, Max: 10 * m}, {Weight: 1, Max: 10 * m}, {Weight: 1, Max: 15 * m}, {Weight: 1, Max: 25 * m}, {Weight: 1}}, 0.8648},
		{"figure 9, last case", []scenario.Policy{{Weight: 1, Min: 30 * m}, {Weight: 2, Min: 20 * m}, {Weight: 3, Min: 15 * m}, {Weight: 4, Min: 15 * m}, {Weight: 5}}, 1.0424},
	} {
		if got := sum(Printed(100*m, c.list)) / 1e8; math.Abs(got-c.want) > 1e-3 {
			t.Errorf("%s: %.4f of the link, want %.4f", c.name, got, c.want)
		}
	}
}
