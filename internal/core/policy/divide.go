// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"math/bits"
	"slices"
)

// Sharer is one of those that a link is divided among: a workload, or a group.
type Sharer struct {
	Weight uint32 // 1 to MaxWeight; 0 counts as 1
	Min    Rate   // 0 = none
	Max    Rate   // 0 = none
	Demand Rate   // what it wants to send; Unlimited if it takes all it can get
}

// Bind names what decides a workload's rate.
type Bind string

// The values of Bind.
const (
	BindMin    Bind = "min"    // its min, which is more than its share
	BindMax    Bind = "max"    // its max, which is less than its share
	BindShare  Bind = "share"  // the level times its weight
	BindDemand Bind = "demand" // it wants no more
	BindIdle   Bind = "idle"   // it wants nothing
)

// Share is the rate that one sharer gets, and the reason for it.
type Share struct {
	Bps   float64 // bits per second
	Binds Bind
}

// Division holds the share of each sharer on a link.
type Division struct {
	Shares []Share // in the order of the sharers
	// Level is L of the contract, in bits per second per unit of weight. If all
	// sharers have their demand, any high enough L would do; it is then the lowest at
	// which every L * weight reaches its cap, so that it is always finite.
	Level float64
}

// Divide applies the contract: it divides a link's capacity among the sharers,
// exactly but for the rounding of float64.
//
//	x = min(cap, max(floor, L * weight))    cap   = the smaller of max and demand
//	                                        floor = the smaller of min and cap
//
// with L such that the x add up to the capacity, or, if all caps together are
// less, every sharer at its cap and the rest of the link unused. The part of its min
// that a workload does not want goes to the others.
//
// Admission makes sure that the floors fit into the capacity. Should they not
// (a link has just shrunk), all are cut in the same proportion, L is 0, and a
// sharer without a min gets nothing.
//
// How: as L rises from 0, a sharer stands at its floor until L * weight reaches
// it, then rises with L, then stands at its cap. The sum of all is a line with
// two bends per sharer. Go along the bends in order and stop on the stretch
// where the sum reaches the capacity; there L is one division away. O(n log n).
// Up to that division all arithmetic is in whole numbers.
func Divide(capacity Rate, sharers []Sharer) Division {
	spans := make([]span, len(sharers))
	var floors, overflow uint64
	for i, s := range sharers {
		spans[i] = s.span(capacity)
		var carry uint64
		floors, carry = bits.Add64(floors, spans[i].floor, 0)
		overflow += carry
	}
	if overflow > 0 || floors > uint64(capacity) {
		return cutFloors(capacity, sharers, spans)
	}
	level := findLevel(uint64(capacity)-floors, spans)
	d := Division{Shares: make([]Share, len(sharers)), Level: level.float()}
	for i, s := range sharers {
		d.Shares[i] = s.share(spans[i], level)
	}
	return d
}

// span is the range of a sharer's rate: from floor to ceil, rising with weight.
type span struct {
	weight      uint64
	floor, ceil uint64
	open        bool // no cap within the capacity; ceil does not count
}

func (s Sharer) span(capacity Rate) span {
	ceil := s.Demand
	if s.Max != 0 {
		ceil = min(ceil, s.Max)
	}
	return span{
		weight: uint64(max(s.Weight, 1)),
		floor:  uint64(min(s.Min, ceil)),
		ceil:   uint64(ceil),
		open:   ceil > capacity,
	}
}

// fraction is num/den; den is never 0.
type fraction struct{ num, den uint64 }

func (f fraction) float() float64 { return float64(f.num) / float64(f.den) }

// times compares a*f with b, without rounding.
func (f fraction) times(a, b uint64) int { return compareProducts(a, f.num, b, f.den) }

// compareProducts compares a*b with c*d in 128 bits.
func compareProducts(a, b, c, d uint64) int {
	hi1, lo1 := bits.Mul64(a, b)
	hi2, lo2 := bits.Mul64(c, d)
	return cmp.Or(cmp.Compare(hi1, hi2), cmp.Compare(lo1, lo2))
}

// bend is a level at which a sharer starts to rise, or stops.
type bend struct {
	at     fraction
	span   span
	starts bool
}

func bends(spans []span) []bend {
	list := make([]bend, 0, 2*len(spans))
	for _, s := range spans {
		if !s.open && s.floor == s.ceil {
			continue // never moves
		}
		list = append(list, bend{fraction{s.floor, s.weight}, s, true})
		if !s.open {
			list = append(list, bend{fraction{s.ceil, s.weight}, s, false})
		}
	}
	slices.SortFunc(list, func(a, b bend) int {
		return compareProducts(a.at.num, b.at.den, b.at.num, a.at.den)
	})
	return list
}

// findLevel returns the lowest level at which the sharers take all that is left
// beyond the floors, or the one that Division.Level names if they cannot.
func findLevel(left uint64, spans []span) fraction {
	level := fraction{0, 1}
	var weights uint64 // of those that rise on this stretch; they share left
	for _, b := range bends(spans) {
		if compareProducts(left, b.at.den, weights, b.at.num) <= 0 {
			if weights == 0 {
				return level // nothing left, no sharer rises: any level up to this bend
			}
			return fraction{left, weights}
		}
		level = b.at
		if b.starts {
			left += b.span.floor
			weights += b.span.weight
		} else {
			left -= b.span.ceil
			weights -= b.span.weight
		}
	}
	if weights > 0 {
		return fraction{left, weights}
	}
	level = fraction{0, 1}
	for _, s := range spans {
		if level.times(s.weight, s.ceil) < 0 {
			level = fraction{s.ceil, s.weight}
		}
	}
	return level
}

// share returns the rate that the sharer gets at the level, and the reason.
func (s Sharer) share(within span, level fraction) Share {
	switch {
	case s.Demand == 0:
		return Share{0, BindIdle}
	case !within.open && level.times(within.weight, within.ceil) >= 0:
		return Share{float64(within.ceil), s.capBind()}
	case level.times(within.weight, within.floor) < 0 && Rate(within.floor) < s.Min:
		return Share{float64(within.floor), s.capBind()}
	case level.times(within.weight, within.floor) < 0:
		return Share{float64(within.floor), BindMin}
	}
	return Share{float64(within.weight) * float64(level.num) / float64(level.den), BindShare}
}

// capBind says which of max and demand is the cap. Where they are equal it is
// the max: wanting more would not help.
func (s Sharer) capBind() Bind {
	if s.Max != 0 && s.Max <= s.Demand {
		return BindMax
	}
	return BindDemand
}

// cutFloors divides a link that is too small for the floors.
func cutFloors(capacity Rate, sharers []Sharer, spans []span) Division {
	var sum float64 // whole numbers might overflow here
	for _, s := range spans {
		sum += float64(s.floor)
	}
	d := Division{Shares: make([]Share, len(sharers))}
	for i, s := range spans {
		switch {
		case sharers[i].Demand == 0:
			d.Shares[i] = Share{0, BindIdle}
		case s.floor == 0:
			d.Shares[i] = Share{0, BindShare}
		default:
			d.Shares[i] = Share{float64(s.floor) * (float64(capacity) / sum), BindMin}
		}
	}
	return d
}
