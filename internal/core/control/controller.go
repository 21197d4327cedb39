// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"math"

	"weir/internal/core/policy"
)

// PeriodSample holds the measurements of one workload or queue over one period.
type PeriodSample struct {
	Goodput float64 // payload delivered, bits per second; NaN = not measured
	Offered float64 // wire bits per second that came
	Sent    float64 // wire bits per second that left
	Waiting bool    // it had more packets to send than it was let
}

// Bounds keep the output between the least rate that makes sense and the most that was
// admitted, in wire bits per second.
type Bounds struct {
	Least float64 // never less: payload never takes less than itself
	Most  float64
}

// Mode says what the controller does.
type Mode string

// The modes.
const (
	Moving     Mode = "moving"     // the error is above the band, and it acts
	Settled    Mode = "settled"    // the error is within the band; it goes on acting
	Bounded    Mode = "bounded"    // it would go further than it may
	Limited    Mode = "limited"    // demand below reservation: the limiter has switched it off
	Waiting    Mode = "waiting"    // for a whole period under the present target, or of demand
	Unmeasured Mode = "unmeasured" // the goodput is not measured; the schedule counts headers of full segments
	Frozen     Mode = "frozen"     // a user asked for it
	Open       Mode = "open"       // without feedback
)

// Modes are all modes.
var Modes = []Mode{Moving, Settled, Bounded, Limited, Waiting, Unmeasured, Frozen, Open}

// Band is the part of the target within which an error counts as none.
const Band = 0.005

// State holds the measurements and the decisions of the last period. All rates are in
// bits per second.
type State struct {
	Target  float64
	Goodput float64 // NaN = not measured
	Error   float64 // Target - Goodput
	Wire    float64 // the output: the rate at which packets are to leave
	In      float64 // the limiter's average of the offered rate, on the wire
	On      bool    // the limiter lets the controller act
	Mode    Mode
}

// Controller holds one goodput. Make it by New.
type Controller struct {
	gains   Gains
	bounds  Bounds
	limiter Limiter
	state   State
	frozen  bool
	open    bool
	law     law
	waits   int        // samples that are still of another target
	last    [2]float64 // errors of the two samples before, the newest first
	primed  bool       // last is of this target
}

// Config says how a Controller begins.
type Config struct {
	Gains  Gains
	Target float64 // payload bits per second, above 0
	Bounds Bounds
	Wire   float64 // the output to begin with, such as what an earlier agent left
	Open   bool    // without feedback: the output stays
	// Summed acts by the CPS paper's law as it is printed (summed.go), for its experiments.
	Summed bool
}

// New returns a controller whose output is c.Wire within the bounds.
func New(c Config) *Controller {
	k := &Controller{gains: c.Gains, bounds: c.Bounds, open: c.Open, waits: 1}
	k.law = k.velocity
	if c.Summed {
		k.law = new(summed).next
	}
	k.state = State{Target: c.Target, Goodput: math.NaN(), Error: math.NaN(), Wire: c.Bounds.within(c.Wire), Mode: Waiting}
	return k
}

func (b Bounds) within(wire float64) float64 { return max(b.Least, min(b.Most, wire)) }

// State returns the state after the last period.
func (k *Controller) State() State { return k.state }

// Gains returns the gains in use.
func (k *Controller) Gains() Gains { return k.gains }

// SetGains changes the gains; the output stays where it is.
func (k *Controller) SetGains(g Gains) { k.gains = g }

// Freeze keeps the output where it is until it is called with false. The schedule
// goes on to hold.
func (k *Controller) Freeze(frozen bool) {
	k.frozen, k.primed = frozen, false
	if frozen {
		k.state.Mode = Frozen
	} else if k.state.Mode == Frozen {
		k.state.Mode, k.waits = Waiting, 1
	}
}

// IsFrozen reports whether the output is kept.
func (k *Controller) IsFrozen() bool { return k.frozen }

// SetOutput puts the output somewhere, for an experiment; it should be frozen.
func (k *Controller) SetOutput(wire float64) { k.state.Wire = k.bounds.within(wire) }

// Retarget changes target and bounds without a bump: the output is scaled, since
// the ratio of wire to payload has not changed. A measurement made under the former
// target does not count.
func (k *Controller) Retarget(target float64, bounds Bounds) {
	if target == k.state.Target && bounds == k.bounds {
		return
	}
	if target != k.state.Target {
		k.state.Wire *= target / k.state.Target
		k.state.Target, k.state.Mode = target, Waiting
		k.waits, k.primed = 1, false
	}
	k.bounds = bounds
	k.state.Wire = bounds.within(k.state.Wire)
}

// Step takes one sample and says what to do for the next period.
func (k *Controller) Step(s PeriodSample) State {
	st := &k.state
	st.On = k.limiter.Take(s, st.Target, st.Wire)
	st.In, st.Goodput, st.Error = k.limiter.In(), s.Goodput, st.Target-s.Goodput
	st.Mode = k.mode(s)
	if st.Mode != Moving {
		k.primed = false
		k.waits = max(0, k.waits-1)
		if st.Mode == Limited {
			k.waits = 1 // what begins within a period has not had a whole one
		}
		return *st
	}
	if !k.primed {
		k.last, k.primed = [2]float64{st.Error, st.Error}, true
	}
	e, e1, e2 := st.Error, k.last[0], k.last[1]
	wire := k.law(st.Wire, k.gains.P()*(e-e1)+k.gains.I()*e+k.gains.D()*(e-2*e1+e2))
	k.last = [2]float64{e, e1}
	st.Wire = k.bounds.within(wire)
	switch {
	case st.Wire != wire && math.Abs(e) > Band*st.Target:
		st.Mode = Bounded
	case math.Abs(e) <= Band*st.Target:
		st.Mode = Settled
	}
	return *st
}

// law makes the next output of the present one and of the sum of the controller's three terms.
type law func(wire, terms float64) float64

// velocity adds the terms to the output. Nothing is summed up beside it that a bound could keep
// from having its effect, so there is nothing to wind up.
func (k *Controller) velocity(wire, terms float64) float64 { return wire + terms }

// mode returns the reason that keeps the controller from acting; Moving if there is none.
func (k *Controller) mode(s PeriodSample) Mode {
	switch {
	case k.frozen:
		return Frozen
	case k.open:
		return Open
	case math.IsNaN(s.Goodput):
		return Unmeasured
	case !k.state.On:
		return Limited
	case k.waits > 0:
		return Waiting
	}
	return Moving
}

// Why says in a sentence why the output holds or moves.
func (s State) Why() string {
	rate := policy.Approx
	switch s.Mode {
	case Moving:
		if s.Error > 0 {
			return fmt.Sprintf("%s short of the target: packets leave sooner", rate(s.Error))
		}
		return fmt.Sprintf("%s above the target: packets leave later", rate(-s.Error))
	case Settled:
		return fmt.Sprintf("within %.1g %% of the target", 100*Band)
	case Bounded:
		if s.Error > 0 {
			return fmt.Sprintf("%s short of the target, and at %s on the wire it is at its bound: look for another workload's min that holds it back, or very small packets", rate(s.Error), rate(s.Wire))
		}
		return fmt.Sprintf("%s above the target, though no more than %s leave on the wire", rate(-s.Error), rate(s.Wire))
	case Limited:
		return fmt.Sprintf("demand below reservation: %s offered on the wire, averaged; the interval stays", rate(s.In))
	case Waiting:
		return "the target or the demand is new; the first whole second counts"
	case Unmeasured:
		return "no program measures its goodput; its interval is that of full segments"
	case Frozen:
		return "frozen by weir control --freeze"
	case Open:
		return "without feedback, as configured"
	}
	return ""
}
