// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"math"
	"time"

	"weir/internal/core/policy"
	"weir/internal/host/dataplane/device"
)

// From what each class did in the last interval to what HTB is told. All of it
// is a function of its arguments.
//
// Two steps. First estimate.next guesses what a class wants: a class that has packets
// waiting, or fills its share, takes whatever it gets (policy.Unlimited); others
// want a little more than they send. Then grants divides the link.
//
// Why not simply rate = share, 0 for the idle? Because HTB keeps its tokens in
// units of time: a class that sends one full frame at a rate of 1 kbit/s owes 12
// seconds, and goes on owing them when its rate is raised to 20 Mbit/s. Hence
// every class, idle or not, keeps a rate of at least its standby, which pays for a
// frame within milliseconds. Rates may not add up to more than the link, so the
// standby of the idle is missing from the rates of the active, who borrow it.

const (
	// standbyPart is the largest standby rate of one class: 1/200 of the link.
	// Less makes waking up slower; more leaves more to borrowing, which is a
	// little less exact.
	standbyPart = 200
	// standbyTotal is what all standby rates may take together: 1/20 of the link.
	standbyTotal = 20

	minQuantum = policy.FullFrame

	// longestTurn is how long the largest quantum may keep the others waiting that
	// borrow too, in seconds of the link. Who stays below its own rate never waits
	// for it.
	longestTurn = 16e-3
	// heldUp is how many times longer the others' turns are than that of a class
	// which is held up by its min, as far as longestTurn allows.
	heldUp = 8

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

// correct learns from what came of the last rates. How HTB lends out what the idle
// keep is as quanta say it only where packets are no larger than they should be, and
// no class has a quantum that is larger than it needs; so who got less than its
// share is given more rate of its own, and the reverse, until it comes out right.
// The result is in bits per second, to be added to what fit
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
// learned has one entry per sharer.
func grants(capacity policy.Rate, sharers []policy.Sharer, learned []history) []grant {
	standby := standbyRate(capacity, sharers)
	division := policy.Divide(capacity, sharers)
	out := make([]grant, len(sharers))
	lower := make([]float64, len(sharers))
	for i, c := range sharers {
		out[i].ceil = capacity
		if c.Max != 0 {
			out[i].ceil = min(c.Max, capacity)
		}
		out[i].share = policy.Rate(division.Shares[i].Bps)
		lower[i] = float64(min(max(c.Min, standby), out[i].ceil))
	}
	aims := make([]float64, len(sharers))
	for i, s := range division.Shares {
		aims[i] = s.Bps
	}
	quantum := quanta(capacity, lower, aims)
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

// fit finds rates that add up to no more than the capacity, though every class
// keeps its lower rate, used or not. What the idle keep is missing from the aims of
// the others, each of which gives up the same part of what it has above its lower
// rate. HTB lends it out in proportion to the quanta, which are made from the same
// differences, so that each borrows what it gave up.
//
// Example: 100 Mbit/s, aims 25 and 75, and an idle class with a min of 40. The two
// must do with 60, so their rates are about 15 and 45, and of the 40 they borrow 10
// and 30. If the third wakes up, it has its 40 at once.
func fit(capacity float64, lower, aims []float64) []float64 {
	rates := make([]float64, len(lower))
	var lowers, above float64
	for i, low := range lower {
		rates[i] = max(low, aims[i])
		lowers += low
		above += rates[i] - low
	}
	missing := lowers + above - capacity
	switch {
	case lowers > capacity: // the link has just shrunk below the mins
		for i, low := range lower {
			rates[i] = low * capacity / lowers
		}
	case missing > 0:
		for i, low := range lower {
			rates[i] -= missing / above * (rates[i] - low)
		}
	}
	return rates
}

// standbyRate is what each class may send at any time without being asked. It is
// taken from what the mins leave.
func standbyRate(capacity policy.Rate, sharers []policy.Sharer) policy.Rate {
	free := capacity
	for _, c := range sharers {
		free -= min(c.Min, free)
	}
	total := min(capacity/standbyTotal, free)
	return min(capacity/standbyPart, total/policy.Rate(max(len(sharers), 1)))
}

// quanta divide the bandwidth that is lent in the proportion of what each class is to
// have above its lower rate. The smallest is the largest packet that a class should hand
// down: HTB lets a class send one packet at each of its turns, however deep in
// debt it is, so quanta smaller than packets mean nothing. A class that lives on its
// min has no use for lent bandwidth and takes such a turn all the same: beside one,
// the others' turns are longer.
func quanta(capacity policy.Rate, lower, aims []float64) []uint32 {
	least := float64(device.GSOLimit(capacity))
	most := max(float64(capacity)/8*longestTurn, least)
	smallest, largest := math.Inf(1), 0.0
	begin := least // quantum of the smallest
	for i, aim := range aims {
		switch above := aim - lower[i]; {
		case above > 0:
			smallest, largest = min(smallest, above), max(largest, above)
		case above == 0:
			begin = heldUp * least
		}
	}
	out := make([]uint32, len(aims))
	for i, aim := range aims {
		quantum := least
		if above := aim - lower[i]; above > 0 {
			quantum = max(above*min(begin/smallest, most/largest), least)
		}
		out[i] = uint32(quantum)
	}
	return out
}

// differs says whether telling HTB is worth the trouble: by more than one
// percent of the rate and one part in a thousand of the link.
func differs(capacity, have, want policy.Rate) bool {
	apart := max(have, want) - min(have, want)
	return apart > max(have/100, capacity/1000)
}
