// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestStep: how goodput goes to a reservation is measured where it begins and where
// it changes, by whole seconds from when the generator was started.
func TestStep(t *testing.T) {
	s := parse(t, `
link: {bandwidth: 100mbit}
workloads:
  a: {reserve: 10mbit, traffic: [{tcp: {}}]}
  b: {traffic: [{tcp: {}}]}
  idle: {reserve: 1mbit}
phases:
  - {for: 10s}
  - {for: 10s}
  - {for: 10s, set: {a: {reserve: 20mbit}}}
expect:
  - {phase: 1, workload: a, goodput: 10.02mbit, within: 1%}
  - {phase: 1, settle: 2s, overshoot: 5%}
  - {phase: 2, workload: a, goodput: 10mbit, within: 0.1%}
  - {phase: 2, workload: a, settle: 1s}
  - {phase: 3, settle: 1s}
`)
	m := Measurement{Scheduler: "fair", Backend: "bpf", Timeline: received(s, func(int, time.Duration) float64 { return 20e6 })}
	// A second of 5, one of 10.4, then 10; later 20.
	m.Timeline.Payload = payload(s, func(w int, at time.Duration) float64 {
		switch {
		case w == 2:
			return 0
		case at < time.Second:
			return 5e6
		case at < 2*time.Second:
			return 10.4e6
		case at >= 20*time.Second:
			return 20e6
		}
		return 10e6
	})
	r := Evaluate(s, m)
	value := func(v *float64) float64 {
		if v == nil {
			return math.NaN()
		}
		return *v
	}
	first := r.Phases[0].Workloads[0]
	if first.ReserveBps != 10e6 || value(first.RiseS) != 1 || math.Abs(value(first.Overshoot)-0.04) > 1e-9 || value(first.SettleS) != 2 || math.Abs(value(first.SteadyError)) > 1e-9 {
		t.Errorf("first: rise %v overshoot %v settle %v steady %v", value(first.RiseS), value(first.Overshoot), value(first.SettleS), value(first.SteadyError))
	}
	if second := r.Phases[1].Workloads[0]; second.SettleS != nil || second.Overshoot != nil || second.ReserveBps != 10e6 {
		t.Errorf("nothing began or changed in the second phase: %+v", second)
	}
	third := r.Phases[2].Workloads[0]
	if value(third.Overshoot) > 1e-9 || !(value(third.SettleS) <= 1) || third.ReserveBps != 20e6 {
		t.Errorf("third: overshoot %v settle %v", value(third.Overshoot), value(third.SettleS))
	}
	if b := r.Phases[0].Workloads[1]; b.ReserveBps != 0 || b.SettleS != nil {
		t.Errorf("without a reservation: %+v", b)
	}
	if idle := r.Phases[0].Workloads[2]; idle.ReserveBps != 1e6 || idle.Overshoot != nil || idle.SteadyError != nil || idle.RecoveryS != nil {
		t.Errorf("who sends nothing has no response: %+v", idle)
	}
	if g := r.Goodput[0]; len(g) != 30 || math.Abs(g[5]-10e6) > 1 || math.Abs(g[25]-20e6) > 1 {
		t.Errorf("goodput by seconds %v", g)
	}
	want := []string{"test.yaml:15: phase 2, a: settling time was not measured, expected at most 1.00"}
	if !slices.Equal(r.Failures, want) {
		t.Errorf("failures\n%s", strings.Join(r.Failures, "\n"))
	}
}

// TestLasts: who joins disturbs a reservation that goes on, and a collapse lasts until
// the goodput is back.
func TestLasts(t *testing.T) {
	s := parse(t, `
link: {bandwidth: 100mbit}
workloads:
  a: {reserve: 10mbit, traffic: [{tcp: {}}]}
  shy: {reserve: 10mbit, traffic: [{udp: {rate: 1mbit}}]}
  b: {}
phases:
  - {for: 10s}
  - {for: 10s, set: {b: {traffic: [{tcp: {}}]}}}
expect:
  - {phase: 2, disturbance: 2%, recovery: 2s}
`)
	m := Measurement{Scheduler: "fair", Backend: "bpf", Timeline: received(s, func(int, time.Duration) float64 { return 20e6 })}
	m.Timeline.Payload = payload(s, func(w int, at time.Duration) float64 {
		switch {
		case w == 1:
			return 1e6
		case at >= 12*time.Second && at < 13*time.Second:
			return 10.3e6
		case at >= 16*time.Second && at < 19*time.Second:
			return 9e6
		}
		return 10e6
	})
	r := Evaluate(s, m)
	if a := r.Phases[0].Workloads[0]; a.Disturbance != nil || a.RecoveryS == nil || *a.RecoveryS != 0 {
		t.Errorf("nothing went before the first phase, and nothing collapsed in it: %+v", a)
	}
	for _, p := range r.Phases {
		if shy := p.Workloads[1]; shy.Disturbance != nil || shy.RecoveryS != nil {
			t.Errorf("who wants less has not collapsed: %+v", shy)
		}
	}
	want := []string{
		"test.yaml:11: phase 2, a: disturbance 3.000 %, expected at most 2.000 %",
		"test.yaml:11: phase 2, a: recovery 3, expected at most 2",
	}
	if !slices.Equal(r.Failures, want) {
		t.Errorf("failures\n%s", strings.Join(r.Failures, "\n"))
	}
}

// TestPlotComparesGoodputWithGoodput: beside curves of goodput the dashed line of a reservation is
// the reservation, and not what it takes on the wire.
func TestPlotComparesGoodputWithGoodput(t *testing.T) {
	s := parse(t, `
link: {bandwidth: 100mbit}
workloads:
  a: {reserve: 10mbit, traffic: [{tcp: {}}]}
phases:
  - {for: 10s}
`)
	m := Measurement{Scheduler: "fair", Backend: "bpf", Timeline: received(s, func(int, time.Duration) float64 { return 10.46e6 })}
	m.Timeline.Payload = payload(s, func(int, time.Duration) float64 { return 10e6 })
	r := Evaluate(s, m)
	if got := drawn(r, r.Stretch[0].Ideal[0]); math.Abs(got-10e6) > 1e4 {
		t.Errorf("the dashed line is at %.3f Mbit/s, the reservation is 10", got/1e6)
	}
	p, err := draft(r)
	if err != nil || p.Y.Label.Text != "goodput, Mbit/s" || p.Y.Max > 12 {
		t.Errorf("axis %q up to %.1f, %v", p.Y.Label.Text, p.Y.Max, err)
	}
}
