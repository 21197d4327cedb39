// SPDX-License-Identifier: Apache-2.0

package algorithm1

import "weir/internal/lab/scenario"

// Printed returns what Algorithm 1 hands out in a period if its total is the link's capacity, and
// nothing corrects it: rates in bits per second, whose sum may be more or less than the link.
//
// Weights 1:2:3, mins of 30 for the first, a max of 15 for the third, capacity 100: 30, 28.9 and
// 15, so that 26.1 are lost.
func Printed(capacity float64, list []scenario.Policy) []float64 { return grant(capacity, list) }

// Equations returns what the paper's equations 1 and 6 to 9 give to workloads that always send.
// What a min takes comes from all others by weight, not only from those that follow, and what a max
// leaves goes to all others.
//
// The equations are applied as they stand, each once: to the shares by weight. So with one min or
// one max that binds they are the contract, whatever the order. With several, a workload that is
// held at its own min or max is counted among those that give or take, though it does neither, and
// the sum is not the link.
//
// Equal weights, the second with a max of 10, capacity 100: 45, 10 and 45.
func Equations(capacity float64, list []scenario.Policy) []float64 {
	weights := parts(list)
	rates := make([]float64, len(list))
	for i, w := range weights {
		rates[i] = capacity * w
	}
	held := make([]bool, len(list))
	moved := make([]float64, len(list)) // to each of the others, by its weight; a min takes
	for i, p := range list {
		share := capacity * weights[i]
		switch least, most := float64(p.Min), float64(p.Max); {
		case p.Min > 0 && share < least:
			held[i], moved[i], rates[i] = true, share-least, least // equation 6
		case p.Max > 0 && share > most:
			held[i], moved[i], rates[i] = true, share-most, most // equation 8
		}
	}
	for j := range list {
		if held[j] {
			continue
		}
		for k, rate := range moved { // equations 7 and 9
			if k != j && rate != 0 {
				rates[j] += rate * weights[j] / (1 - weights[k])
			}
		}
	}
	return rates
}

// Used returns what the workloads send by the paper's equations 2 to 5 if each wants only so much,
// in bits per second, once the credits have settled. Of what a workload leaves of its credit, the
// others get their parts by weight in the next period, and that much less is handed out to it.
//
// Weights 1:2:3, capacity 100, the third wants nothing: 33.3, 66.7 and 0.
func Used(capacity float64, list []scenario.Policy, wanted []float64) []float64 {
	weights := parts(list)
	remaining, sent := make([]float64, len(list)), make([]float64, len(list))
	for range periods {
		before := append([]float64(nil), remaining...)
		for j, w := range weights {
			credit := capacity * w // equation 1
			for i, left := range before {
				if i != j {
					credit += left * w / (1 - weights[i]) // equations 2 to 4
				}
			}
			credit -= before[j] // equation 5
			have := before[j] + credit
			sent[j] = max(0, min(have, wanted[j]))
			remaining[j] = have - sent[j]
		}
	}
	return sent
}

// periods are more than the credits need to settle.
const periods = 1000

// parts are the weights as parts of their sum.
func parts(list []scenario.Policy) []float64 {
	var all float64
	for _, p := range list {
		all += float64(p.Weight)
	}
	weights := make([]float64, len(list))
	for i, p := range list {
		weights[i] = float64(p.Weight) / all
	}
	return weights
}

// Sum of rates.
func Sum(list []float64) float64 { return sum(list) }
