// SPDX-License-Identifier: Apache-2.0

// Package algorithm1 calculates what the qCon paper's Algorithm 1 gives to workloads. It tells
// what of the distance between the scheduler qcon (bpf/schedulers/qcon.h) and the contract is the
// algorithm's own, and what is that of packets.
package algorithm1

import "weir/internal/lab/scenario"

// Rates returns what Algorithm 1 gives to workloads that always have something to send, in the
// order of the list, once the total has settled: rates in bits per second that add up to the
// capacity, as far as the maxes let them.
//
// Of the algorithm only weight, min and max are left here. A workload that always sends
// has spent its credit when the period ends, but for less than a packet, so the
// branch for unspent credit is left out. The balance (bpf/schedulers/qcon.h) moves the total until
// the rates handed out add up to the link's capacity; bisection finds that total.
//
// Equal weights, the second with a max of 10, capacity 100: the total settles at
// 120 and the three get 40, 10 and 50.
func Rates(capacity float64, list []scenario.Policy) []float64 {
	low, high := 0.0, 2*capacity // the balance is at most one period's total
	for range 60 {
		middle := (low + high) / 2
		if sum(grant(middle, list)) < capacity {
			low = middle
		} else {
			high = middle
		}
	}
	return grant(high, list)
}

// grant makes one pass of the loop. The part that a min takes or a max leaves changes the
// total for the workloads that follow, and for none before.
func grant(total float64, list []scenario.Policy) []float64 {
	var weights float64
	for _, p := range list {
		weights += float64(p.Weight)
	}
	credits := make([]float64, len(list))
	for i, p := range list {
		credit := max(total, 0) * float64(p.Weight) / weights
		if least := float64(p.Min); p.Min > 0 && credit < least {
			total -= least - credit
			credit = least
		}
		if most := float64(p.Max); p.Max > 0 && credit > most {
			total += credit - most
			credit = most
		}
		credits[i] = credit
	}
	return credits
}

func sum(list []float64) (s float64) {
	for _, v := range list {
		s += v
	}
	return s
}
