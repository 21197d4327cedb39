// SPDX-License-Identifier: Apache-2.0

// Package loop calculates what the CPS paper's controller does on networks that answer with a lag:
// its sets of gains (figure 8), its table 2, and its control law as it is printed. It runs Weir's
// own controller (internal/core/control) against a network of a line; the lab's network answers at
// once.
package loop

import (
	"math"

	"weir/internal/core/control"
)

const (
	target  = 30e6
	seconds = 90
	tick    = 0.001 // by which the network is calculated, in seconds
	// gain is the payload in what leaves: full segments.
	gain = 1448. / 1514
	// most is how far above its target a loop may go, as in package pace.
	most = 4
	cold = 0.01
)

// Case is one flow that reserves 30 Mbit/s.
type Case struct {
	Gains  control.Gains
	Lag    float64 // time constant of the network, in seconds; 0 = it answers at once
	Summed bool    // the law as it is printed
	Warm   bool    // begins at the target on the wire, which headers make short, and not at a hundredth of it
}

// Goodput returns what arrives in each second, in bits per second: a first-order lag behind the
// schedule, a mean over the second as a monitor sees it.
func (c Case) Goodput() []float64 {
	start := cold * target
	if c.Warm {
		start = target
	}
	k := control.New(control.Config{Gains: c.Gains, Target: target, Wire: start, Summed: c.Summed,
		Bounds: control.Bounds{Least: cold * target, Most: most * target}})
	part := 1.0
	if c.Lag > 0 {
		part = 1 - math.Exp(-tick/c.Lag)
	}
	arrives, list := 0.0, []float64(nil)
	for range seconds {
		wire, sum := k.State().Wire, 0.0
		for range int(1 / tick) {
			arrives += (gain*wire - arrives) * part
			sum += arrives
		}
		goodput := sum * tick
		list = append(list, goodput)
		k.Step(control.PeriodSample{Goodput: goodput, Offered: wire, Sent: wire, Waiting: true})
	}
	return list
}

// Response of the goodput.
func (c Case) Response() control.Response { return control.Respond(c.Goodput(), 1, 0, target) }
