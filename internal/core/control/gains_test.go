// SPDX-License-Identifier: Apache-2.0

package control

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPaperGains: the five sets of the paper's section VI-B behave as it says,
// begun from zero as there, on a network that answers within the second.
func TestPaperGains(t *testing.T) {
	const target = 30 * mega
	for _, tt := range []struct {
		name          string
		gains         Gains
		least, most   float64 // of the overshoot
		settles       float64 // seconds at most; 0 = it need not
		slower, never bool
	}{
		{"figure 8a, Ti = 1: slow, no overshoot", Gains{0.125, 1, 1}, 0, 0.001, 45, true, false},
		{"figure 8a, Ti = 0.146: right", Paper, 0.01, 0.13, 12, false, false},
		{"figure 8a, Ti = 0.1136: large overshoot", Gains{0.125, 0.1136, 1}, 0.15, 0.5, 0, false, false},
		{"figure 8b, Kc = 0.877: oscillates", Gains{0.877, 1.142, 0.1279}, 0.5, 2, 0, false, true},
		{"figure 8b, Kc = 1: oscillates", Gains{1, 2, 0.1136}, 0.5, 2, 0, false, true},
	} {
		k := New(Config{Gains: tt.gains, Target: target, Bounds: Bounds{Least: 0.01 * target, Most: 2 * target}})
		goodput, _ := run(k, &lagging{gain: 0.9564}, 80)
		r := Respond(goodput, 1, 0, target)
		if r.Overshoot < tt.least || r.Overshoot > tt.most {
			t.Errorf("%s: overshoot %.3f", tt.name, r.Overshoot)
		}
		if tt.settles != 0 && !(r.Settle <= tt.settles) || tt.slower && r.Settle < 15 || tt.never && !math.IsNaN(r.Settle) {
			t.Errorf("%s: settles after %v s", tt.name, r.Settle)
		}
		if stable := tt.gains.CheckStable() == nil; stable == tt.never {
			t.Errorf("%s: found stable: %v, radius %v", tt.name, stable, tt.gains.Radius(1))
		}
	}
}

func TestDefaultGains(t *testing.T) {
	if err := Default.CheckStable(); err != nil || Default.Warning() != "" {
		t.Errorf("%v, %q", err, Default.Warning())
	}
	if Default.Radius(1) > 0.7 || Default.Radius(2) > 0.95 {
		t.Errorf("radius %v and %v", Default.Radius(1), Default.Radius(2))
	}
}

func TestRefusedGains(t *testing.T) {
	for _, tt := range []struct {
		gains Gains
		want  string
	}{
		{Gains{0, 1, 0}, `kc "0": not a gain`},
		{Gains{1, 0, 0}, `ti "0": not a gain`},
		{Gains{1, 1, -1}, `td "-1": not a gain`},
		{Gains{math.NaN(), 1, 0}, `kc "NaN": not a gain`},
		{Gains{1, math.Inf(1), 0}, `ti "+Inf": not a gain`},
		{Gains{0.877, 1.142, 0.1279}, `kc "0.877": with Kc 0.877, Ti 1.142 s, Td 0.1279 s an error of 1 % becomes 1.5 % a second later, and so on, on a network that answers within the second: the loop is not stable there; lower kc, or raise ti; the default is Kc 0.15`},
	} {
		err := tt.gains.CheckStable()
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %s", tt.gains, err, tt.want)
		}
	}
	if w := (Gains{0.01, 1, 0}).Warning(); !strings.HasPrefix(w, "slow: half of an error is left after 70 s") {
		t.Errorf("a slow loop: %q", w)
	}
	if w := (Gains{0.1, 0.095, 0}).Warning(); !strings.Contains(w, "oscillates where the network answers a second late") {
		t.Errorf("a hasty loop: %q", w)
	}
}

// TestRadiusForetells: gains are found stable if and only if a loop on that plant
// comes to rest.
func TestRadiusForetells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Gains{Kc: rapid.Float64Range(0.01, 1.5).Draw(t, "kc"), Ti: rapid.Float64Range(0.1, 5).Draw(t, "ti"), Td: rapid.Float64Range(0, 2).Draw(t, "td")}
		radius := g.Radius(1)
		if math.Abs(radius-1) < 0.02 {
			return // it would take long to show
		}
		y, e1, e2, u := 0.0, 0.01, 0.01, 0.99
		for range 2000 {
			y = u
			e := 1 - y
			u += g.P()*(e-e1) + g.I()*e + g.D()*(e-2*e1+e2)
			e1, e2 = e, e1
			if math.Abs(u) > 1e6 {
				break
			}
		}
		if stable := math.Abs(y-1) < 1e-3; stable != (radius < 1) {
			t.Fatalf("%v: radius %v, and the output is %v", g, radius, y)
		}
	})
}
