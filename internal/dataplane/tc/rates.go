// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"math"
	"time"

	"weir/internal/policy"
)

// From what each class did in the last interval to what HTB is told. All of it
// is a function of its arguments.
//
// Two steps. First estimate.next guesses what a class wants: whoever has packets
// waiting, or fills its share, takes whatever it gets (policy.Unlimited); others
// want a little more than they send. Then grants divides the link.
//
// Why not simply rate = share, 0 for the idle? Because HTB keeps its tokens in
// units of time: a class that sends one full frame at a rate of 1 kbit/s owes 12
// seconds, and goes on owing them when its rate is raised to 20 Mbit/s. Hence
// everybody, idle or not, keeps a rate of at least its standby, which pays for a
// frame within milliseconds. Rates may not add up to more than the link, so the
// standby of the idle is missing from the rates of the active, who borrow it.

const (
	// standbyPart is the largest standby rate of one class: 1/200 of the link.
	// Less makes waking up slower; more leaves more to borrowing, which HTB
	// divides roughly evenly, whatever the quanta, because a class loses its turn
	// each time its own tokens come back.
	standbyPart = 200
	// standbyTotal is what all standby rates may take together: 1/20 of the link.
	standbyTotal = 20

	minQuantum = 1514
	maxQuantum = 32 * 1514

	// patience is how many intervals in a row a class must stay below its share,
	// with nothing waiting, before it counts as wanting less. TCP does so for a
	// moment after each loss.
	patience = 3
)

// sample is what one class did in one interval.
type sample struct {
	sent    uint64 // bytes
	waiting uint64 // packets, at the end of the interval
	over    time.Duration
}

func (s sample) rate() policy.Rate {
	if s.over <= 0 {
		return 0
	}
	return policy.Rate(float64(s.sent) * 8 / s.over.Seconds())
}

// estimate is what one class is believed to want.
type estimate struct {
	demand policy.Rate // policy.Unlimited if it takes what it gets, 0 if it is idle
	below  int         // intervals in a row in which it wanted less
}

// next is the belief after one more interval, in which the class was allowed to
// send at the given rate. An idle one's is its standby, not its share of nothing:
// one packet of a neighbour discovery must not pass for a hunger.
func (e estimate) next(s sample, allowed policy.Rate) estimate {
	rate := s.rate()
	if s.waiting > 0 || rate >= allowed-allowed/10 {
		return estimate{demand: policy.Unlimited}
	}
	below := min(e.below+1, patience)
	switch {
	case s.sent == 0 && below >= 2:
		return estimate{below: below}
	case e.demand == policy.Unlimited && below < patience:
		return estimate{demand: policy.Unlimited, below: below}
	case e.demand == policy.Unlimited:
		return estimate{demand: headroom(rate), below: below}
	}
	// Up at once, down by one step per interval: 0.7 * 1.25 = 0.875 of before.
	return estimate{demand: headroom(max(rate, e.demand/10*7)), below: below}
}

// headroom is a quarter more than rate, so that a class that begins to want more
// shows it by filling its share, rounded up to one of eight steps per doubling,
// so that small changes change nothing.
func headroom(rate policy.Rate) policy.Rate {
	wanted := max(float64(rate)*1.25, 1)
	return policy.Rate(math.Exp2(math.Ceil(math.Log2(wanted)*8) / 8))
}

// grant is what HTB is told about one class.
type grant struct {
	share   policy.Rate // what the contract gives it; HTB is not told
	rate    policy.Rate
	ceil    policy.Rate
	quantum uint32 // bytes
}

// grants divides a link. The rates never add up to more than the capacity.
func grants(capacity policy.Rate, claims []policy.Claim) []grant {
	standby := standbyRate(capacity, claims)
	division := policy.Divide(capacity, claims)
	out := make([]grant, len(claims))
	lower := make([]float64, len(claims))
	var lowers, overs float64
	for i, c := range claims {
		out[i].ceil = capacity
		if c.Max != 0 {
			out[i].ceil = min(c.Max, capacity)
		}
		out[i].share = policy.Rate(division.Shares[i].Bps)
		lower[i] = float64(min(max(c.Min, standby), out[i].ceil))
		lowers += lower[i]
		overs += max(division.Shares[i].Bps-lower[i], 0)
	}
	stretch, squeeze := 1.0, 1.0
	if overs > 0 {
		stretch = min(max((float64(capacity)-lowers)/overs, 0), 1)
	}
	if lowers > float64(capacity) {
		squeeze = float64(capacity) / lowers // the link shrank below the mins
	}
	quantum := quanta(division.Shares)
	for i, share := range division.Shares {
		rate := squeeze * (lower[i] + stretch*max(share.Bps-lower[i], 0))
		out[i].rate = policy.Rate(max(rate, 8)) // HTB refuses less than a byte
		out[i].quantum = quantum[i]
	}
	return out
}

// standbyRate is what each class may send at any time without being asked. It is
// taken from what the mins leave.
func standbyRate(capacity policy.Rate, claims []policy.Claim) policy.Rate {
	free := capacity
	for _, c := range claims {
		free -= min(c.Min, free)
	}
	total := min(capacity/standbyTotal, free)
	return min(capacity/standbyPart, total/policy.Rate(max(len(claims), 1)))
}

// quanta divide what is left over in the proportion of the shares: one frame for
// the smallest, unless that makes the turn of the largest too long for others.
func quanta(shares []policy.Share) []uint32 {
	smallest, largest := math.Inf(1), 0.0
	for _, s := range shares {
		if s.Bps > 0 {
			smallest, largest = min(smallest, s.Bps), max(largest, s.Bps)
		}
	}
	scale := 0.0 // bytes of quantum per bit/s
	if largest > 0 {
		scale = min(minQuantum/smallest, maxQuantum/largest)
	}
	out := make([]uint32, len(shares))
	for i, s := range shares {
		out[i] = uint32(max(s.Bps*scale, minQuantum))
	}
	return out
}

// differs says whether telling HTB is worth the trouble: by more than one
// percent of the rate and one part in a thousand of the link.
func differs(capacity, have, want policy.Rate) bool {
	apart := max(have, want) - min(have, want)
	return apart > max(have/100, capacity/1000)
}
