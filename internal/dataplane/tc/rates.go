// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"math"
	"slices"
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
	// Less makes waking up slower; more leaves more to borrowing, which is less
	// exact: HTB divides it roughly evenly, whatever the quanta, because a class
	// loses its turn each time its own tokens come back.
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
	case s.sent == 0:
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
	bias    float64     // by how much its rate was corrected; HTB is not told
	rate    policy.Rate
	ceil    policy.Rate
	quantum uint32 // bytes
}

// correct learns from what came of the last rates. Nobody can say beforehand how
// HTB will lend out what the idle keep (it depends on packet sizes and timing), so
// who got less than its share is given more rate of its own, and the reverse, until
// it comes out right. The result is in bits per second, to be added to what fit
// makes of the share; a class that does not take all it can get has no say.
func correct(h history, demand policy.Rate, s sample) (bias float64) {
	if demand != policy.Unlimited || s.waiting == 0 {
		return h.bias / 2
	}
	missing := float64(h.share) - float64(s.rate())
	limit := float64(h.share) // a measurement that is far off must not do much harm
	return min(max(h.bias+correction*missing, -limit), limit)
}

// correction is the part of an error that is made good per interval: most of it
// within a second, without running after the ups and downs of TCP.
const correction = 0.3

// history is what correct has learned about a class, and the share for which.
type history struct {
	share policy.Rate
	bias  float64
}

// forShare is the bias to use for a share: none if the share has moved by more
// than a tenth, because then others are active and what was learned is void.
func (h history) forShare(share policy.Rate) float64 {
	if max(h.share, share)-min(h.share, share) > h.share/10 {
		return 0
	}
	return h.bias
}

// grants divides a link. The rates never add up to more than the capacity.
// learned has one entry per claim.
func grants(capacity policy.Rate, claims []policy.Claim, learned []history) []grant {
	standby := standbyRate(capacity, claims)
	division := policy.Divide(capacity, claims)
	out := make([]grant, len(claims))
	lower := make([]float64, len(claims))
	for i, c := range claims {
		out[i].ceil = capacity
		if c.Max != 0 {
			out[i].ceil = min(c.Max, capacity)
		}
		out[i].share = policy.Rate(division.Shares[i].Bps)
		lower[i] = float64(min(max(c.Min, standby), out[i].ceil))
	}
	quantum := quanta(division.Shares)
	aims := make([]float64, len(claims))
	for i, s := range division.Shares {
		aims[i] = s.Bps
	}
	for i, rate := range fit(float64(capacity), lower, aims) {
		out[i].bias = learned[i].forShare(out[i].share)
		aims[i] = min(rate+out[i].bias, float64(out[i].ceil))
	}
	// Once more, because the biases need not add up to nothing.
	for i, rate := range fit(float64(capacity), lower, aims) {
		out[i].rate = policy.Rate(max(rate, 8)) // HTB refuses less than a byte
		out[i].quantum = quantum[i]
	}
	return out
}

// fit finds rates that add up to no more than the capacity, though everybody
// keeps its lower rate, used or not. What the idle keep is missing from the aims of
// the others, who borrow it. HTB lends by turns, somewhere between the same to each
// and in proportion to what each may send; fit takes it away half and half, and
// correct does the rest.
//
// Example: 100 Mbit/s, aims 25 and 75, and an idle class with a min of 40. The
// same from each: 5 and 55. In proportion: 15 and 45. So the rates are 40, 10, 50.
func fit(capacity float64, lower, aims []float64) []float64 {
	rates := make([]float64, len(lower))
	var lowers, above float64
	var room []float64 // how far each may go down
	for i, low := range lower {
		rates[i] = max(low, aims[i])
		lowers += low
		if rates[i] > low {
			above += rates[i] - low
			room = append(room, rates[i]-low)
		}
	}
	missing := lowers + above - capacity
	switch {
	case lowers > capacity: // the link has just shrunk below the mins
		for i, low := range lower {
			rates[i] = low * capacity / lowers
		}
	case missing > 0:
		same, part := evenly(missing, room), missing/above
		for i, low := range lower {
			rates[i] -= (min(same, rates[i]-low) + part*(rates[i]-low)) / 2
		}
	}
	return rates
}

// evenly returns the b with which the smaller of b and room add up to total.
func evenly(total float64, room []float64) float64 {
	slices.Sort(room)
	for i, r := range room {
		b := total / float64(len(room)-i)
		if b <= r {
			return b
		}
		total -= r
	}
	return math.Inf(1)
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
