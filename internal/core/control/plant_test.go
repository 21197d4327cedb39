// SPDX-License-Identifier: Apache-2.0

package control

import (
	"math"
	"math/rand/v2"
)

// plant is a network as the controller sees it: for a second packets leave at wire
// bits per second, and this much payload arrives.
type plant interface {
	second(wire float64) PeriodSample
}

// tick is the step by which a lagging plant is simulated, in seconds.
const tick = 0.01

// lagging is a first-order lag with dead time.
type lagging struct {
	gain, lag, delay float64 // as in Plant; seconds
	demand           float64 // wire bit/s that the workload offers; 0 = whatever leaves
	noise            float64 // standard deviation of a second's goodput, part of it
	rng              *rand.Rand

	y     float64
	queue []float64
}

func (p *lagging) second(wire float64) PeriodSample {
	offered, waiting := wire, true
	if p.demand != 0 && p.demand < wire {
		wire, offered, waiting = p.demand, p.demand, false
	}
	sum, steps, part := 0.0, int(math.Round(1/tick)), 1-math.Exp(-tick/p.lag)
	for range steps {
		p.queue = append(p.queue, wire)
		if late := len(p.queue) - int(p.delay/tick); late > 0 {
			in := p.gain * p.queue[0]
			p.queue = p.queue[1:]
			p.y += (in - p.y) * part
		}
		sum += p.y
	}
	goodput := sum / float64(steps)
	if p.rng != nil {
		goodput *= 1 + p.noise*p.rng.NormFloat64()
	}
	return PeriodSample{Goodput: goodput, Offered: offered, Sent: wire, Waiting: waiting}
}

// sawtooth is a TCP flow behind the schedule: its window grows by a segment per
// round trip and is cut to 7/10 by each loss, which may be a full queue or chance;
// a second's goodput is the part of the schedule that its windows filled.
type sawtooth struct {
	rtt   float64 // seconds without a queue
	queue float64 // bytes that may wait for their turn
	loss  float64 // of segments
	rng   *rand.Rand

	window float64 // segments
	rest   float64 // seconds that the last round trip reached into this second
}

const mss, frame = 1448, 1514

func (p *sawtooth) second(wire float64) PeriodSample {
	if p.window == 0 {
		p.window = 10
	}
	rate := wire / 8 / frame // segments per second that the schedule lets through
	payload, waiting := 0.0, false
	for at := p.rest; ; {
		pipe := rate * p.rtt // segments on their way without a queue
		over := p.window - pipe
		round := p.rtt
		if over > 0 {
			round += over / rate
			waiting = true
		} else {
			waiting = false
		}
		delivered := p.window
		switch lost := p.rng.Float64() < 1-math.Pow(1-p.loss, p.window); {
		case lost, over*frame > p.queue:
			delivered-- // and comes once more
			p.window = max(2, 0.7*p.window)
		default:
			p.window++
		}
		if at+round > 1 {
			part := (1 - at) / round
			p.rest = at + round - 1
			payload += delivered * part
			break
		}
		payload += delivered
		at += round
	}
	return PeriodSample{Goodput: 8 * mss * payload, Offered: wire, Sent: wire, Waiting: waiting}
}

// lossy loses segments by chance and sends each again at the end of the queue; now
// and then everything stops for a timeout.
type lossy struct {
	loss     float64
	collapse float64 // chance of a timeout in a second
	rng      *rand.Rand
}

func (p *lossy) second(wire float64) PeriodSample {
	if p.rng.Float64() < p.collapse {
		part := 0.2 + 0.5*p.rng.Float64()
		return PeriodSample{Goodput: wire * part * mss / frame, Offered: wire * part, Sent: wire * part}
	}
	n := wire / 8 / frame
	lost := n*p.loss + math.Sqrt(n*p.loss)*p.rng.NormFloat64()
	return PeriodSample{Goodput: 8 * mss * (n - lost), Offered: wire, Sent: wire, Waiting: true}
}

// run lets the controller hold the plant for some seconds.
func run(k *Controller, p plant, seconds int) (goodput []float64, states []State) {
	for range seconds {
		s := p.second(k.State().Wire)
		goodput = append(goodput, s.Goodput)
		states = append(states, k.Step(s))
	}
	return goodput, states
}

func mean(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(len(list))
}
