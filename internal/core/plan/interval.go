// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"weir/internal/core/policy"
	"weir/internal/core/policy/admission"
)

// Interval paces a class or a queue: each byte of a packet's length, as the link
// counts it (the frame and the link's overhead), takes this much of a schedule of
// future service times. A packet's is
//
//	FST = max(now, last FST) + length * interval
//
// and the packet leaves once the one before it is over. It is the paper's interval
// per packet, generalised to packets of any size. The unit is ns per byte times
// 2^IntervalShift, as all costs in the kernel; 0 = not paced.
//
// Example: 10 Mbit/s on the wire are 800 ns per byte, 838,860,800.
type Interval uint64

// IntervalShift is the fixed point of an Interval; WEIR_NS_SHIFT in bpf/weir.h.
const IntervalShift = 20

const byteNs = 8e9 // ns per byte at 1 bit/s

// IntervalOf returns the interval at which exactly wire bits per second leave, rounded to
// the nearest; 0 for no rate.
func IntervalOf(wire policy.Rate) Interval {
	if wire == 0 {
		return 0
	}
	hi, lo := bits.Mul64(byteNs, 1<<IntervalShift)
	lo, carry := bits.Add64(lo, uint64(wire)/2, 0)
	interval, _ := bits.Div64((hi+carry)%uint64(wire), lo, uint64(wire))
	return Interval(max(interval, 1))
}

// Nanoseconds returns the interval in ns per byte.
func (i Interval) Nanoseconds() float64 { return float64(i) / (1 << IntervalShift) }

// Rate returns the rate at this interval, bits per second on the wire; 0 = not paced.
func (i Interval) Rate() float64 {
	if i == 0 {
		return 0
	}
	return byteNs / i.Nanoseconds()
}

// String returns the interval for people: "764.6 ns/byte", "none".
func (i Interval) String() string {
	if i == 0 {
		return "none"
	}
	digits := max(0, 3-int(math.Floor(math.Log10(i.Nanoseconds()))))
	return strconv.FormatFloat(i.Nanoseconds(), 'f', min(digits, 6), 64) + " ns/byte"
}

// Ceiling returns the rate that a class never exceeds on the wire: its max, or the rate
// at which its interval lets packets go; 0 = nothing bounds it.
func (c Class) Ceiling() policy.Rate {
	paced := policy.Rate(math.Round(c.Interval.Rate()))
	if c.Max == 0 || paced != 0 && paced < c.Max {
		return paced
	}
	return c.Max
}

// pacedFrames is the number of frames of a paced class that may wait within CoDel's target:
// TCP needs four or more on their way to see that one was lost.
const pacedFrames = 8

// forPacing returns the default of a class that is paced. Its queue is made by the schedule
// and not by a link that is too narrow, and at 5 Mbit/s the usual 5 ms are two frames.
func (a AQM) forPacing(i Interval) AQM {
	if i == 0 || a.Target == 0 {
		return a
	}
	if least := time.Duration(pacedFrames * policy.FullFrame * i.Nanoseconds()).Round(time.Millisecond); least > a.Target {
		a.Interval = max(a.Interval, 10*least)
		a.Target = least
	}
	return a
}

// Pacing holds the values of a class that a controller changes: its interval, and the
// intervals of its queues, in their order.
type Pacing struct {
	Class  Interval
	Queues []Interval
}

// Paced returns s with the intervals of some classes put in place. Classes that are not
// there, or are held by no reservation, are left alone, and so are queues.
func (s State) Paced(by map[ClassID]Pacing) State {
	s.Classes = slices.Clone(s.Classes)
	for i := range s.Classes {
		c := &s.Classes[i]
		p, ok := by[c.ID]
		if !ok {
			continue
		}
		if c.Reserve != 0 && p.Class != 0 {
			c.Interval = p.Class
		}
		c.Queues = slices.Clone(c.Queues)
		for q := range c.Queues {
			if c.Queues[q].Reserve != 0 && q < len(p.Queues) && p.Queues[q] != 0 {
				c.Queues[q].Interval = p.Queues[q]
			}
		}
	}
	return s
}

// OnlyPaces reports whether a change is one of intervals alone, such as a
// controller makes every second.
func (e Edit) OnlyPaces() bool {
	if e.Op != SetClass {
		return false
	}
	return e.OldClass.unpaced().Equal(e.NewClass.unpaced())
}

// unpaced returns the class without its intervals.
func (c Class) unpaced() Class {
	c.Interval = 0
	c.Queues = slices.Clone(c.Queues)
	for q := range c.Queues {
		c.Queues[q].Interval = 0
	}
	return c
}

// reservationOf marks a refusal as one of a reservation, if it is one.
func reservationOf(p policy.Policy, err error, l Link) error {
	var refused *admission.Refused
	if reserved := p.Reserved(l.Capacity); reserved != 0 && errors.As(err, &refused) &&
		policy.WireOf(reserved, l.Overhead()) >= p.Min.Of(l.Capacity) {
		refused.Goodput, refused.Overhead = reserved, l.Overhead()
	}
	return err
}

// withoutReservations returns p without its reservations and those of its queues.
func withoutReservations(p policy.Policy) policy.Policy {
	p.Reserve = policy.Amount{}
	p.Queues = slices.Clone(p.Queues)
	for q := range p.Queues {
		p.Queues[q].Reserve = policy.Amount{}
	}
	return p
}

// WithoutFloors returns p without its min and its reservations.
func WithoutFloors(p policy.Policy) policy.Policy {
	p.Min = policy.Amount{}
	return withoutReservations(p)
}

// paced returns a reservation on this link and the interval that it begins with: the one
// at which segments of full size have this goodput.
func (l Link) paced(reserve policy.Amount) (policy.Rate, Interval) {
	goodput := reserve.Of(l.Capacity)
	return goodput, IntervalOf(policy.WireOf(goodput, l.Overhead()))
}
