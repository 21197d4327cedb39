// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"math"
	"slices"
)

// Plant is a first-order lag with dead time, the model that a step response is
// fitted to: after a step of its input by 1 the output stays for Delay and then goes
// to Gain as 1 - exp(-t / Lag).
type Plant struct {
	Gain  float64 // goodput per wire bit
	Delay float64 // seconds, the paper's L
	Lag   float64 // seconds, the paper's T
}

// Point is the goodput at an instant of an experiment.
type Point struct {
	At      float64 // seconds since the experiment began
	Goodput float64 // bits per second
}

// ErrNoResponse says that the output did not follow the input.
var ErrNoResponse = errors.New("the goodput did not follow the step")

// noise is the least ratio of a response to the ups and downs around it.
const noise = 3

// FitStep finds the plant in a response to a step of the input (wire bits per
// second) from before to after at the instant step; the points reach from well before
// it until the output has settled. Delay and lag come from the times at which 28 %
// and 63 % of the response are there, which a single noisy point moves less than the
// tangent that Ziegler and Nichols draw by hand.
func FitStep(points []Point, step, before, after float64) (Plant, error) {
	var early, late []float64
	end := 0.0
	for _, p := range points {
		end = max(end, p.At)
	}
	for _, p := range points {
		switch {
		case p.At <= step:
			early = append(early, p.Goodput)
		case p.At > step+(end-step)/2:
			late = append(late, p.Goodput)
		}
	}
	if len(early) < 2 || len(late) < 2 || before == after {
		return Plant{}, errors.New("too few points before and after the step")
	}
	from, to := median(early), median(late)
	rise := to - from
	if math.Abs(rise) < noise*max(spread(early), spread(late)) || rise*(after-before) <= 0 {
		return Plant{}, ErrNoResponse
	}
	t28 := crossing(points, step, from+0.283*rise, rise > 0)
	t63 := crossing(points, step, from+0.632*rise, rise > 0)
	lag := max(1.5*(t63-t28), 0)
	return Plant{Gain: rise / (after - before), Lag: lag, Delay: max(t63-lag, 0)}, nil
}

// crossing returns the time after the step at which the output is at a level for the first time
// and at the next point too.
func crossing(points []Point, step, level float64, up bool) float64 {
	beyond := func(p Point) bool { return (p.Goodput >= level) == up }
	for i, p := range points {
		if p.At <= step || !beyond(p) || i+1 < len(points) && !beyond(points[i+1]) {
			continue
		}
		if i == 0 || points[i-1].At < step || p.Goodput == points[i-1].Goodput {
			return p.At - step
		}
		before := points[i-1]
		part := (level - before.Goodput) / (p.Goodput - before.Goodput)
		return before.At + min(max(part, 0), 1)*(p.At-before.At) - step
	}
	return points[len(points)-1].At - step
}

func median(list []float64) float64 {
	s := slices.Sorted(slices.Values(list))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// spread returns the median distance from the median.
func spread(list []float64) float64 {
	m := median(list)
	apart := make([]float64, len(list))
	for i, v := range list {
		apart[i] = math.Abs(v - m)
	}
	return median(apart)
}

// sampled returns the plant as a controller sees it that looks once a period: its answer
// comes at the next look at the earliest.
func (p Plant) sampled() Plant {
	p.Delay += Period
	return p
}

// ZieglerNichols returns the gains of the first method (the paper's table 1): Kp = 1.2 T
// / L, Ti = 2 L, Td = 0.5 L, over the plant's gain. Neither L nor T is taken shorter
// than a period, as the paper does.
func (p Plant) ZieglerNichols() Gains {
	l, t := p.sampled().Delay, max(p.Lag, Period)
	return Gains{Kc: 1.2 * t / (l * p.Gain), Ti: 2 * l, Td: 0.5 * l}
}

// leastLag keeps the proportional part from vanishing where there is no lag, and
// mostP keeps it from swinging by itself, since its answer is always a sample late.
const (
	leastLag = 0.25
	mostP    = 0.3
)

// Suggest returns gains that settle without overshoot: the loop is to be as slow as its
// dead time (lambda tuning), which keeps it stable with twice the gain or dead time.
// Ziegler and Nichols aim at a quarter of an overshoot left per swing.
func (p Plant) Suggest() Gains {
	l, t := p.sampled().Delay, max(p.Lag, leastLag)
	integral := 1 / (2 * l * p.Gain)
	proportional := t * integral
	if limit := mostP / p.Gain; proportional > limit {
		integral *= limit / proportional
		proportional = limit
	}
	return Gains{Kc: proportional, Ti: proportional / integral * Period}
}

// Ultimate is the verge of stability: the proportional gain at which a loop goes on
// swinging, and the length of one swing in seconds.
type Ultimate struct{ Gain, Period float64 }

// ZieglerNichols returns the gains of the second method: Kp = 0.6 Ku, Ti = 0.5 Pu, Td =
// 0.125 Pu.
func (u Ultimate) ZieglerNichols() Gains {
	return Gains{Kc: 0.6 * u.Gain, Ti: 0.5 * u.Period, Td: 0.125 * u.Period}
}

// Relay finds the ultimate gain without going to the verge by hand (Åström and
// Hägglund): the input is switched between two values each time the output passes
// the target, and the loop swings by itself.
type Relay struct {
	Target float64 // of the output
	Center float64 // of the input
	Swing  float64 // the input is Center plus or minus this

	up     bool
	began  bool
	at     float64   // seconds
	turns  []float64 // when the input was switched to low
	peaks  []float64 // of the output between two turns
	peak   float64
	bottom float64
	depths []float64
}

// Step takes the output of one period and gives the input for the next.
func (r *Relay) Step(output float64) float64 {
	r.at += Period
	if !r.began {
		r.began, r.up = true, output < r.Target
		r.peak, r.bottom = output, output
	}
	r.peak, r.bottom = max(r.peak, output), min(r.bottom, output)
	switch {
	case r.up && output > r.Target:
		r.up = false
		r.turns = append(r.turns, r.at)
		r.depths, r.bottom = append(r.depths, r.bottom), output
	case !r.up && output < r.Target:
		r.up = true
		r.peaks, r.peak = append(r.peaks, r.peak), output
	}
	if r.up {
		return r.Center + r.Swing
	}
	return r.Center - r.Swing
}

// Ultimate returns the verge that the swings show, the first swing left out; an error while
// there are too few. Ku = 4 d / (pi a), with the amplitudes d of the input and a of the output.
func (r *Relay) Ultimate() (Ultimate, error) {
	if len(r.turns) < 3 || len(r.peaks) < 3 || len(r.depths) < 3 {
		return Ultimate{}, errors.New("too few swings")
	}
	amplitude := (median(r.peaks[1:]) - median(r.depths[1:])) / 2
	if amplitude <= 0 {
		return Ultimate{}, ErrNoResponse
	}
	period := (r.turns[len(r.turns)-1] - r.turns[0]) / float64(len(r.turns)-1)
	return Ultimate{Gain: 4 * r.Swing / (math.Pi * amplitude), Period: period}, nil
}
