// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"math"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/core/plan"
)

// scoreMinutes is how many minutes a score looks back.
const scoreMinutes = 60

// Scores counts for each class the seconds in which it was owed what it was promised, and those
// of them in which it got it. The zero value is ready.
//
// A class is owed its promise while its packets wait, and at no other time (judge). It was promised
// its min, or its share (the ideal rate beside all that wait) if it has none or the max of its
// group leaves it less. A second in which the policies changed counts only where the promise is a
// min that stayed as it was.
//
// Example: a class with a min that is starved for three seconds of a minute in which packets
// wait all the time has 57 of 60, 95.0 %. A sender in bursts whose packets wait for a quarter of
// each second, at its min or more, has 100.0 %.
type Scores struct {
	classes map[plan.ClassID]*score
}

// score has the counts of one class.
type score struct {
	minutes      [scoreMinutes]minute // by the minute's number, modulo their number
	last         int64                // number of the present minute, since 1970
	wanted, kept uint64               // seconds since the class was first seen
}

type minute struct{ wanted, kept uint8 }

// fewSeconds is how many seconds a minute has to count to be the worst one.
const fewSeconds = 10

// Add judges the second between two divisions, the later of which is of time at, and forgets
// the classes that are gone.
func (s *Scores) Add(at time.Time, before, now Division) {
	kept := make(map[plan.ClassID]*score, len(now.State.Classes))
	same, contended := samePolicies(before.State, now.State), now.contended()
	for _, class := range now.State.Classes {
		c := s.classes[class.ID]
		if c == nil {
			c = &score{}
		}
		kept[class.ID] = c
		c.advance(at.Unix() / 60)
		promise := contended[class.ID].Bps
		was, _ := before.State.Class(class.ID)
		if class.Min > 0 {
			promise = min(float64(class.Min), promise)
		}
		if !same && (promise != float64(class.Min) || was.Min != class.Min) {
			continue
		}
		o := owed{promise: promise, turn: oneTurn * float64(now.State.Link.Capacity)}
		if promise == float64(class.Min) {
			o.turn = 0 // a min has its own clock
		}
		if got := o.judge(before.Used[class.ID], now.Used[class.ID]); got != unknown {
			c.count(got == held)
		}
	}
	s.classes = kept
}

// Rest is Add of a second in which no class had a packet and no policy changed, as in the second
// before: nothing was owed.
func (s *Scores) Rest(at time.Time) {
	for _, c := range s.classes {
		c.advance(at.Unix() / 60)
	}
}

// samePolicies reports whether nothing that divides a link differs between two plans.
func samePolicies(a, b plan.State) bool {
	return a.Link.Capacity == b.Link.Capacity && slices.EqualFunc(a.Classes, b.Classes, func(x, y plan.Class) bool {
		return x.ID == y.ID && x.Parent == y.Parent && x.Group == y.Group && x.Weight == y.Weight && x.Min == y.Min && x.Ceiling() == y.Ceiling()
	})
}

// advance empties the minutes between the last one that was seen and this one.
func (c *score) advance(minuteNumber int64) {
	for n := max(c.last+1, minuteNumber-scoreMinutes+1); n <= minuteNumber; n++ {
		c.minutes[n%scoreMinutes] = minute{}
	}
	// A clock that was set back goes on with the minute that it had come to.
	c.last = max(c.last, minuteNumber)
}

func (c *score) count(kept bool) {
	m := &c.minutes[c.last%scoreMinutes]
	if m.wanted == math.MaxUint8 {
		return // a clock that was set back
	}
	m.wanted++
	c.wanted++
	if kept {
		m.kept++
		c.kept++
	}
}

// Of returns a class's score as the API shows it, nil if it has wanted nothing in the last
// hour.
func (s *Scores) Of(id plan.ClassID, class plan.Class) *api.Score {
	c := s.classes[id]
	if c == nil {
		return nil
	}
	var wanted, kept int
	worst := math.Inf(1)
	for _, m := range c.minutes {
		wanted, kept = wanted+int(m.wanted), kept+int(m.kept)
		if m.wanted >= fewSeconds {
			worst = min(worst, float64(m.kept)/float64(m.wanted))
		}
	}
	if wanted == 0 {
		return nil
	}
	v := &api.Score{WantedSeconds: wanted, Kept: float64(kept) / float64(wanted), WantedSecondsTotal: c.wanted, KeptSecondsTotal: c.kept}
	v.WorstMinute = min(worst, 1)
	if math.IsInf(worst, 1) {
		v.WorstMinute = v.Kept
	}
	promise := "share"
	if class.Min > 0 {
		promise = "min"
	}
	v.Text = fmt.Sprintf("%s of the %d s in which it wanted its %s, worst minute %s", v.KeptText(), wanted, promise, api.RoundedDown(v.WorstMinute))
	return v
}
