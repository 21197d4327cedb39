// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"math"
	"math/cmplx"

	"weir/internal/core/invalid"
)

// Period is the time between two samples in seconds, the paper's T_s.
const Period = 1.0

// Gains are the constants of the controller as the paper has them: the proportional
// gain, the integral and the derivative time in seconds.
type Gains struct {
	Kc float64 // wire bit/s per bit/s of error
	Ti float64 // larger is slower; the integral gain is Kc * Period / Ti
	Td float64 // the derivative gain is Kc * Td / Period
}

// Default is right without tuning: of the gains that settle within 5 s and overshoot
// by less than 5 % on every plant of the tests (gain 0.8 to 0.99, lag up to 0.5 s, or a
// second sample of dead time), one that adds little to the noise it measures.
var Default = Gains{Kc: 0.15, Ti: 0.25, Td: 0}

// Paper holds the gains that the CPS paper ends with (section VI-B).
var Paper = Gains{Kc: 0.125, Ti: 0.146, Td: 1}

// P returns the proportional gain of one sample: a control step is P times the error's change,
// plus I times the error, plus D times the change of the error's change.
func (g Gains) P() float64 { return g.Kc }

// I returns the integral gain of one sample.
func (g Gains) I() float64 { return g.Kc * Period / g.Ti }

// D returns the derivative gain of one sample.
func (g Gains) D() float64 { return g.Kc * g.Td / Period }

// String returns the gains for people: "Kc 0.15, Ti 0.25 s, Td 0 s".
func (g Gains) String() string { return fmt.Sprintf("Kc %.4g, Ti %.4g s, Td %.4g s", g.Kc, g.Ti, g.Td) }

// Check refuses, as a *invalid.Error, numbers that are no gains at all.
func (g Gains) Check() error {
	for _, x := range []struct {
		field string
		value float64
		least bool
	}{{"kc", g.Kc, g.Kc > 0}, {"ti", g.Ti, g.Ti > 0}, {"td", g.Td, g.Td >= 0}} {
		if math.IsNaN(x.value) || math.IsInf(x.value, 0) || !x.least || x.value > 1e6 {
			return &invalid.Error{Field: x.field, Value: fmt.Sprint(x.value), Msg: "not a gain",
				Remedy: "write a number above 0 (td may be 0), such as kc 0.15, ti 0.25, td 0"}
		}
	}
	return nil
}

// CheckStable refuses, as a *invalid.Error, gains with which the loop is not stable on a network
// that answers within the second, as nearly all do: where each second's goodput is the rate that
// was set the second before. A network with a lag of its own, a fifth of a second or more, can be
// stable with gains that are refused here (the CPS paper's figure 8b is of such sets), so a user
// may insist.
func (g Gains) CheckStable() error {
	if err := g.Check(); err != nil {
		return err
	}
	grows := g.Radius(1)
	if grows < 1 {
		return nil
	}
	return &invalid.Error{Field: "kc", Value: fmt.Sprintf("%.4g", g.Kc),
		Msg:    fmt.Sprintf("with %s an error of 1 %% becomes %.2g %% a second later, and so on, on a network that answers within the second: the loop is not stable there", g, grows),
		Remedy: "lower kc, or raise ti; the default is " + Default.String()}
}

// Warning describes the behaviour to expect of stable gains that are not good ones; "" if
// the gains are good.
func (g Gains) Warning() string {
	switch near, far := g.Radius(1), g.Radius(2); {
	case near >= 1:
		return "" // refused
	case far >= 1:
		return "the loop oscillates where the network answers a second late"
	case near > 0.9:
		return fmt.Sprintf("slow: half of an error is left after %.0f s", math.Ceil(math.Log(0.5)/math.Log(near)))
	}
	return ""
}

// Radius returns the factor by which an error grows or shrinks from one sample to the
// next, in the end: the largest modulus of a root of the closed loop
//
//	z^(d+2) - z^(d+1) + (P+I+D) z^2 - (P+2D) z + D
//
// on a plant whose output is its input of d samples before. Below 1 is stable.
func (g Gains) Radius(delay int) float64 {
	poly := make([]float64, delay+3) // by power of z
	poly[delay+2] = 1
	poly[delay+1]--
	poly[2] += g.P() + g.I() + g.D()
	poly[1] -= g.P() + 2*g.D()
	poly[0] += g.D()
	radius := 0.0
	for _, z := range roots(poly) {
		radius = max(radius, cmplx.Abs(z))
	}
	return radius
}

// roots finds all roots of a monic polynomial by Durand and Kerner's iteration.
func roots(poly []float64) []complex128 {
	n := len(poly) - 1
	at := func(z complex128) complex128 {
		v := complex(0, 0)
		for i := n; i >= 0; i-- {
			v = v*z + complex(poly[i], 0)
		}
		return v
	}
	list := make([]complex128, n)
	for i := range list {
		list[i] = cmplx.Pow(complex(0.4, 0.9), complex(float64(i), 0))
	}
	for range 500 {
		for i := range list {
			others := complex(1, 0)
			for j := range list {
				if j != i {
					others *= list[i] - list[j]
				}
			}
			if others != 0 {
				list[i] -= at(list[i]) / others
			}
		}
	}
	return list
}
