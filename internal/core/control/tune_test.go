// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// respond is the step response of a plant, a point every 0.2 s.
func respond(p Plant, before, after, step, end, noise float64, seed uint64) []Point {
	rng := seeded(seed)
	var points []Point
	for at := 0.2; at <= end+1e-9; at += 0.2 {
		y := before
		if t := at - step - p.Delay; t > 0 {
			y = after
			if p.Lag > 0 {
				y = before + (after-before)*(1-math.Exp(-t/p.Lag))
			}
		}
		points = append(points, Point{at, p.Gain * y * (1 + noise*rng.NormFloat64())})
	}
	return points
}

func TestFitStepFindsThePlant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Plant{Gain: rapid.Float64Range(0.5, 1).Draw(t, "gain"), Delay: rapid.Float64Range(0, 2).Draw(t, "delay"), Lag: rapid.Float64Range(0, 1.5).Draw(t, "lag")}
		got, err := FitStep(respond(want, 10*mega, 8*mega, 4, 20, 0.002, rapid.Uint64().Draw(t, "seed")), 4, 10*mega, 8*mega)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.Gain-want.Gain) > 0.05*want.Gain || math.Abs(got.Delay+got.Lag-want.Delay-want.Lag) > 0.35 {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestFitStepRefuses(t *testing.T) {
	flat := respond(Plant{Gain: 1}, 10*mega, 10*mega, 4, 20, 0.01, 1)
	if _, err := FitStep(flat, 4, 10*mega, 8*mega); !errors.Is(err, ErrNoResponse) {
		t.Errorf("no response: %v", err)
	}
	if _, err := FitStep(flat[:3], 4, 10*mega, 8*mega); err == nil {
		t.Error("three points are enough")
	}
	wrong := respond(Plant{Gain: 1}, 8*mega, 10*mega, 4, 20, 0, 1)
	if _, err := FitStep(wrong, 4, 10*mega, 8*mega); !errors.Is(err, ErrNoResponse) {
		t.Errorf("the wrong way: %v", err)
	}
}

// TestSuggestedGains: the gains suggested for a plant hold that plant without
// overshoot, also where the measurement was a fifth wrong.
func TestSuggestedGains(t *testing.T) {
	const target = 10 * mega
	rapid.Check(t, func(t *rapid.T) {
		p := Plant{Gain: rapid.Float64Range(0.6, 1).Draw(t, "gain"), Delay: rapid.Float64Range(0, 1.5).Draw(t, "delay"), Lag: rapid.Float64Range(0, 2).Draw(t, "lag")}
		g := p.Suggest()
		if err := g.CheckStable(); err != nil {
			t.Fatal(err)
		}
		wrong := rapid.Float64Range(0.8, 1.2).Draw(t, "wrong")
		k := New(Config{Gains: g, Target: target, Bounds: boundsOf(target), Wire: target * 1.2})
		goodput, _ := run(k, &lagging{gain: min(1, p.Gain*wrong), lag: p.Lag, delay: p.Delay}, 120)
		r := Respond(goodput, 1, 0, target)
		if math.Abs(r.Steady) > 0.005 || math.IsNaN(r.Settle) {
			t.Fatalf("%+v with %v: %+v\n%.3g", p, g, r, goodput)
		}
	})
}

// TestZieglerNichols: table 1 of the paper, and its example with L = T = 2 s.
func TestZieglerNichols(t *testing.T) {
	got := Plant{Gain: 1, Delay: 1, Lag: 2}.ZieglerNichols() // a second of which is the sampling's
	if want := (Gains{Kc: 1.2, Ti: 4, Td: 1}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestRelay: a proportional loop on a pure delay of one sample is at the verge with a
// gain of 1 and swings every 2 samples; the relay's fundamental makes it 4/pi.
func TestRelay(t *testing.T) {
	const target = 10 * mega
	for _, tt := range []struct {
		delay  float64 // seconds beside the sampling
		period float64
	}{{0, 2}, {1, 4}} {
		p := &lagging{gain: 0.95, delay: tt.delay}
		r := Relay{Target: target, Center: target / 0.95, Swing: 0.1 * target}
		wire := r.Center
		for range 40 {
			wire = r.Step(p.second(wire).Goodput)
		}
		u, err := r.Ultimate()
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(u.Period-tt.period) > 0.3 || math.Abs(u.Gain*0.95-4/math.Pi) > 0.1 {
			t.Errorf("delay %v: %+v", tt.delay, u)
		}
		if g := u.ZieglerNichols(); g.Ti != u.Period/2 || g.Td != u.Period/8 || math.Abs(g.Kc-0.6*u.Gain) > 1e-12 {
			t.Errorf("gains %v", g)
		}
	}
	if _, err := new(Relay).Ultimate(); err == nil {
		t.Error("found something without an experiment")
	}
}

func TestRespond(t *testing.T) {
	got := Respond([]float64{0.5, 0.95, 1.04, 1.01, 1, 1, 1, 1, 1}, 1, 0, 1)
	want := Response{Rise: 1, Overshoot: 0.04, Settle: 3, Steady: 0}
	if math.Abs(got.Overshoot-want.Overshoot) > 1e-9 || got.Rise != want.Rise || got.Settle != want.Settle || got.Steady != 0 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	down := Respond([]float64{2, 1.5, 0.9, 1, 1, 1}, 1, 2, 1)
	if math.Abs(down.Overshoot-0.1) > 1e-9 || down.Settle != 3 {
		t.Errorf("downwards: %+v", down)
	}
	if never := Respond([]float64{0.5, 0.5}, 1, 0, 1); !math.IsNaN(never.Settle) || !math.IsNaN(never.Rise) {
		t.Errorf("never there: %+v", never)
	}
}
