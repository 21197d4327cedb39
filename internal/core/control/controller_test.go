// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

const mega = 1e6

// nominal is the ratio of wire to payload that a loop begins with: full segments.
const nominal = 1514.0 / 1448

func boundsOf(target float64) Bounds { return Bounds{Least: target, Most: 4 * target} }

func begin(g Gains, target float64) *Controller {
	return New(Config{Gains: g, Target: target, Bounds: boundsOf(target), Wire: nominal * target})
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// TestDefaultsAreRight: on every plant the default gains settle within 5 s of the
// controller's first sample, overshoot by less than 5 % and end within 0.5 %.
func TestDefaultsAreRight(t *testing.T) {
	const target = 10 * mega
	for _, gain := range []float64{0.8, 0.9, 0.9564, 0.9927} { // the last: frames of 9,014 bytes
		for _, shape := range []struct{ lag, delay float64 }{{0, 0}, {0.1, 0}, {0.3, 0}, {0.5, 0}, {0, 0.2}, {0, 1}, {0.2, 0.3}} {
			name := fmt.Sprintf("gain %v lag %v delay %v", gain, shape.lag, shape.delay)
			p := &lagging{gain: gain, lag: shape.lag, delay: shape.delay}
			k := begin(Default, target)
			goodput, _ := run(k, p, 60)
			r := Respond(goodput[1:], 1, 0, target)
			if !(r.Settle <= 6) || r.Overshoot > 0.05 || math.Abs(r.Steady) > 0.005 {
				t.Errorf("%s: %+v\n%.3g", name, r, goodput[:12])
			}
		}
	}
}

// TestSteadyUnderNoise: with 2 % of noise on each second the mean is the target
// within 0.5 %, and the loop adds less than a half to the noise.
func TestSteadyUnderNoise(t *testing.T) {
	const target = 5 * mega
	for seed := range uint64(5) {
		p := &lagging{gain: 0.95, noise: 0.02, rng: seeded(seed)}
		goodput, _ := run(begin(Default, target), p, 600)
		goodput = goodput[10:]
		square := 0.0
		for _, v := range goodput {
			square += (v/target - 1) * (v/target - 1)
		}
		if off := mean(goodput)/target - 1; math.Abs(off) > 0.005 {
			t.Errorf("seed %d: mean %.2f %% off", seed, 100*off)
		}
		if rms := math.Sqrt(square / float64(len(goodput))); rms > 0.03 {
			t.Errorf("seed %d: rms %.2f %%", seed, 100*rms)
		}
	}
}

// TestSawtooth: a TCP flow that drains its queue now and then, with the shallow
// queue of CoDel or a deep one, near and far, lossless and with a loss in a thousand.
func TestSawtooth(t *testing.T) {
	const target = 10 * mega
	for _, tt := range []struct {
		name   string
		rtt    float64
		queue  float64
		loss   float64
		within float64
	}{
		{"near, deep queue", 0.001, 128 << 10, 0, 0.005},
		{"near, shallow queue", 0.002, 6250, 0, 0.005},
		{"far, deep queue", 0.02, 128 << 10, 0, 0.005},
		{"far, shallow queue", 0.02, 6250, 0, 0.005},
		{"far, lossy", 0.02, 128 << 10, 0.001, 0.02},
	} {
		goodput, states := run(begin(Default, target), &sawtooth{rtt: tt.rtt, queue: tt.queue, loss: tt.loss, rng: seeded(7)}, 300)
		if off := mean(goodput[10:])/target - 1; math.Abs(off) > tt.within {
			t.Errorf("%s: mean %.2f %% off; last %+v", tt.name, 100*off, states[len(states)-1])
		}
	}
}

// TestLossyLink: retransmissions take the place of payload, and a collapse neither
// winds anything up nor lasts.
func TestLossyLink(t *testing.T) {
	const target = 7 * mega
	goodput, _ := run(begin(Default, target), &lossy{loss: 0.03, rng: seeded(3)}, 300)
	if off := mean(goodput[10:])/target - 1; math.Abs(off) > 0.005 {
		t.Errorf("3 %% of loss: mean %.2f %% off", 100*off)
	}
	goodput, _ = run(begin(Default, target), &lossy{loss: 0.001, collapse: 0.05, rng: seeded(4)}, 400)
	for i := 10; i+3 < len(goodput); i++ {
		if goodput[i] < 0.9*target {
			continue // the collapse itself
		}
		if goodput[i] > 1.05*target {
			t.Errorf("second %d: %.2f after a collapse", i, goodput[i]/target)
		}
	}
}

// TestLimiter: a workload that offers too little is left alone, the interval stays,
// and when it wants its reservation again it has it in the first second.
func TestLimiter(t *testing.T) {
	const target = 10 * mega
	p := &lagging{gain: 0.9564}
	k := begin(Default, target)
	run(k, p, 20)
	before := k.State().Wire
	p.demand = 3 * mega
	_, states := run(k, p, 60)
	last := states[len(states)-1]
	if last.Mode != Limited || last.On || math.Abs(last.Wire-before) > 1 {
		t.Errorf("with little to send: %+v, before %v", last, before)
	}
	if math.Abs(last.In-3*mega) > 1 {
		t.Errorf("In is %v", last.In)
	}
	p.demand = 0
	goodput, _ := run(k, p, 5)
	for i, v := range goodput {
		if math.Abs(v/target-1) > 0.005 {
			t.Errorf("second %d after its return: %v", i+1, v/target)
		}
	}
}

// TestDemandBeginsWithinAPeriod: traffic that begins shortly before a look does not
// make the controller act in a hurry.
func TestDemandBeginsWithinAPeriod(t *testing.T) {
	const target = 10 * mega
	p := &lagging{gain: 0.9564}
	k := begin(Default, target)
	for range 5 {
		k.Step(PeriodSample{})
	}
	part := p.second(k.State().Wire)
	part.Goodput, part.Offered, part.Sent = 0.3*part.Goodput, 0.3*part.Offered, 0.3*part.Sent
	if st := k.Step(part); st.Mode != Waiting || st.Wire != nominal*target {
		t.Errorf("a third of a second: %+v", st)
	}
	goodput, _ := run(k, p, 5)
	for i, v := range goodput {
		if math.Abs(v/target-1) > 0.005 {
			t.Errorf("second %d: %v", i+1, v/target)
		}
	}
}

// TestLimiterAverages: In is the paper's equation 3.
func TestLimiterAverages(t *testing.T) {
	var l Limiter
	for i, tt := range []struct{ offered, want float64 }{{8, 8}, {0, 4}, {0, 2}, {10, 6}} {
		l.Take(PeriodSample{Offered: tt.offered}, 5, 5)
		if l.In() != tt.want {
			t.Errorf("sample %d: In is %v, want %v", i+1, l.In(), tt.want)
		}
	}
}

// TestBumpless: a new target is there in its first whole second, without overshoot,
// whatever was found between payload and wire.
func TestBumpless(t *testing.T) {
	p := &lagging{gain: 0.83}
	k := begin(Default, 10*mega)
	run(k, p, 30)
	for _, target := range []float64{20 * mega, 5 * mega, 6 * mega} {
		k.Retarget(target, boundsOf(target))
		goodput, _ := run(k, p, 6)
		for i, v := range goodput {
			if math.Abs(v/target-1) > 0.005 {
				t.Errorf("%v: second %d: %v", target, i+1, v/target)
			}
		}
	}
}

// TestTargetsAtRandom: a target that is changed every second for ten minutes makes
// nothing swing up, on any plant.
func TestTargetsAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := seeded(rapid.Uint64().Draw(t, "seed"))
		p := &lagging{gain: 0.8 + 0.2*rng.Float64(), lag: 0.5 * rng.Float64(), noise: 0.01, rng: rng}
		k := begin(Default, 10*mega)
		for range 600 {
			target := mega * (5 + 20*rng.Float64())
			k.Retarget(target, boundsOf(target))
			_, states := run(k, p, 1)
			if w := states[0].Wire / target; w < 1 || w > 1.5 {
				t.Fatalf("target %.3g: %.3g on the wire", target, states[0].Wire)
			}
		}
		k.Retarget(10*mega, boundsOf(10*mega))
		goodput, _ := run(k, p, 30)
		if off := mean(goodput[10:])/(10*mega) - 1; math.Abs(off) > 0.01 {
			t.Fatalf("afterwards the mean is %.2f %% off", 100*off)
		}
	})
}

// TestNoWindup: minutes at the bound leave nothing behind.
func TestNoWindup(t *testing.T) {
	const target = 10 * mega
	p := &lagging{gain: 0.2} // not even four times the target on the wire is enough
	k := begin(Default, target)
	_, states := run(k, p, 120)
	if last := states[119]; last.Mode != Bounded || last.Wire != 4*target {
		t.Errorf("at the bound: %+v", last)
	}
	p.gain = 0.9564
	goodput, _ := run(k, p, 12)
	if math.Abs(goodput[11]/target-1) > 0.02 {
		t.Errorf("after the bound: %.3g", goodput)
	}
	for i, v := range goodput[3:] { // one sample to see it, one to act, one for the remaining error
		if v < 0.9*target {
			t.Errorf("second %d: undershoots to %.3g", i+4, v)
		}
	}
}

func TestFreeze(t *testing.T) {
	p := &lagging{gain: 0.9}
	k := begin(Default, 10*mega)
	k.Freeze(true)
	_, states := run(k, p, 10)
	if last := states[9]; last.Mode != Frozen || last.Wire != nominal*10*mega {
		t.Errorf("frozen: %+v", last)
	}
	k.Freeze(false)
	goodput, states := run(k, p, 10)
	if math.Abs(goodput[9]/(10*mega)-1) > 0.005 || states[9].Mode != Settled {
		t.Errorf("after that: %+v", states[9])
	}
}

// TestUnmeasured: without a measurement the schedule stays what headers alone demand.
func TestUnmeasured(t *testing.T) {
	k := begin(Default, 10*mega)
	for range 10 {
		if st := k.Step(PeriodSample{Goodput: math.NaN(), Waiting: true}); st.Mode != Unmeasured || st.Wire != nominal*10*mega {
			t.Fatalf("%+v", st)
		}
	}
}

// TestEveryModeHasItsReason holds the sentences that people read.
func TestEveryModeHasItsReason(t *testing.T) {
	for _, m := range Modes {
		if why := (State{Mode: m, Target: 1e6, Error: 1e4}).Why(); why == "" {
			t.Errorf("%s: no reason", m)
		}
	}
}

// TestAnyGains: whatever the gains and the plant, the output stays within its bounds
// and is a number.
func TestAnyGains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gain := rapid.Float64Range(1e-3, 1e4)
		g := Gains{Kc: gain.Draw(t, "kc"), Ti: gain.Draw(t, "ti"), Td: gain.Draw(t, "td")}
		k := begin(g, mega)
		for range 100 {
			s := PeriodSample{Goodput: rapid.Float64Range(0, 1e12).Draw(t, "goodput"), Offered: mega, Sent: 2 * mega, Waiting: rapid.Bool().Draw(t, "waiting")}
			if st := k.Step(s); !(st.Wire >= mega && st.Wire <= 4*mega) {
				t.Fatalf("%+v", st)
			}
		}
	})
}
