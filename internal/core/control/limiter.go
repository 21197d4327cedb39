// SPDX-License-Identifier: Apache-2.0

package control

// Limiter is the paper's (equation 3): it averages the workload's offered rate
// exponentially and says whether the controller may act. The zero Limiter has
// seen nothing.
type Limiter struct {
	in   float64 // In(t), wire bit/s
	seen bool
}

// average is the weight of the newest sample.
const average = 0.5

// used is the part of its schedule that a workload takes which is held back by it,
// though nothing happens to wait at the instant of the look.
const used = 0.9

// Take takes one sample of the offered rate in, wire bits per second, and says
// whether the controller is on: while packets wait, or while the average is at the
// reservation and the schedule is made use of.
func (l *Limiter) Take(s PeriodSample, target, wire float64) (on bool) {
	if l.seen {
		l.in += average * (s.Offered - l.in)
	} else {
		l.in, l.seen = s.Offered, true
	}
	return s.Waiting || l.in >= target && s.Sent >= used*wire
}

// In returns the average, wire bits per second.
func (l *Limiter) In() float64 { return l.in }
