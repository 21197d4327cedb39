// SPDX-License-Identifier: Apache-2.0

// Package flowchart calculates what the ANCS paper's flow chart (its figure 3, with sections 3.2 to
// 3.4) gives to virtual interfaces if its words are taken literally: the total is the link's
// capacity, all interfaces take part for ever, and nothing corrects the sum but the network card.
// It tells what of the scheduler ancs (bpf/schedulers/ancs.h) is the paper's and what is a
// reconstruction (docs/decisions/0011-ancs-from-prose.md).
package flowchart

import (
	"math"

	"weir/internal/lab/scenario"
)

// periods until the credits have settled, and over how many a rate is taken: credit of an idle
// interface goes on once it has reached its peak, not in each period.
const (
	settling = 500
	counted  = 3000
)

// vif is a virtual interface: what the flow chart keeps of it.
type vif struct {
	scenario.Policy
	remain float64 // RemainCredit
}

// Rates returns what the interfaces send, in the unit of the capacity: those of which idle says so
// want nothing, all others all they can get. Credit of a period is the rate times the period, so
// both are one number here.
//
// Weights 1 to 5, the last with a max of 15, capacity 100: 6.7, 13.3, 20, 26.7 and 15, which is
// 81.7 % of the link.
func Rates(capacity float64, list []scenario.Policy, idle func(i int) bool) []float64 {
	var weights float64
	vifs := make([]vif, len(list))
	for i, p := range list {
		vifs[i].Policy = p
		weights += float64(p.Weight)
	}
	rates, next := make([]float64, len(list)), 0.0
	for period := range settling + counted {
		account(vifs, capacity, weights, next)
		wanted := make([]float64, len(vifs))
		for i, v := range vifs {
			if !idle(i) {
				wanted[i] = v.remain
			}
		}
		next = 0
		for i, sent := range card(capacity, wanted) {
			vifs[i].remain -= sent
			next += vifs[i].remain
			if period >= settling {
				rates[i] += sent / counted
			}
		}
	}
	return rates
}

// account is the accounting function: once a period, over the interfaces in order.
func account(vifs []vif, capacity, weights, next float64) {
	total := capacity
	for i := range vifs {
		v := &vifs[i]
		fair := total * float64(v.Weight) / weights
		peak := capacity + next
		fair = max(fair, float64(v.Min))
		v.remain += fair
		if most := float64(v.Max); most > 0 && v.remain > most {
			total += v.remain - most // reclaimed for distribution to the others
			v.remain = most
		}
		if v.remain > peak {
			total += v.remain - fair // CreditLeft, for those that follow
			v.remain = fair
		}
	}
}

// card sends what it can of what is wanted, one packet of each in turn: no sender gets
// more than another one that wants more.
func card(capacity float64, wanted []float64) []float64 {
	sent, open := make([]float64, len(wanted)), len(wanted)
	for open > 0 && capacity > 1e-9 {
		part, least := capacity/float64(open), math.Inf(1)
		for i, w := range wanted {
			if left := w - sent[i]; left > 1e-12 {
				least = min(least, left)
			}
		}
		if part = min(part, least); math.IsInf(least, 1) {
			break
		}
		open = 0
		for i, w := range wanted {
			if w-sent[i] > 1e-12 {
				sent[i] += part
				capacity -= part
				if w-sent[i] > 1e-12 {
					open++
				}
			}
		}
	}
	return sent
}
