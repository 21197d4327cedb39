// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
)

func TestIntervalOf(t *testing.T) {
	for _, tt := range []struct {
		wire policy.Rate
		want Interval
		text string
	}{
		{0, 0, "none"},
		{10e6, 800 << IntervalShift, "800.0 ns/byte"},
		{8e9, 1 << IntervalShift, "1.000 ns/byte"},
		{10_455_802, 802_292_163, "765.1 ns/byte"},
		{policy.MaxRate, 8, "0.000008 ns/byte"},
		{policy.Unlimited, 1, "0.000001 ns/byte"},
	} {
		got := IntervalOf(tt.wire)
		if got != tt.want || got.String() != tt.text {
			t.Errorf("%s: %d, %q; want %d, %q", tt.wire, got, got, tt.want, tt.text)
		}
	}
}

// TestIntervalIsFineEnough: rounding costs less than a part in a million up to 10
// Gbit/s.
func TestIntervalIsFineEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wire := policy.Rate(rapid.Uint64Range(uint64(policy.MinRate), 10e9).Draw(t, "wire"))
		if got := IntervalOf(wire).Rate(); math.Abs(got/float64(wire)-1) > 1e-6 {
			t.Fatalf("%s becomes %f", wire, got)
		}
	})
}

// TestCoDelOfAPacedClass: eight frames at its rate may wait, where the policy asks for no target.
func TestCoDelOfAPacedClass(t *testing.T) {
	for _, tt := range []struct {
		reserve policy.Rate
		aqm     discipline.AQM
		want    AQM
	}{
		{5e6, discipline.AQM{}, AQM{Target: 19 * time.Millisecond, Interval: 190 * time.Millisecond}},
		{30e6, discipline.AQM{}, AQM{Target: discipline.DefaultTarget, Interval: discipline.DefaultInterval}},
		{5e6, discipline.AQM{Target: time.Millisecond, Interval: 20 * time.Millisecond}, AQM{Target: time.Millisecond, Interval: 20 * time.Millisecond}},
		{5e6, discipline.AQM{Off: true}, AQM{}},
		{0, discipline.AQM{}, AQM{Target: discipline.DefaultTarget, Interval: discipline.DefaultInterval}},
	} {
		p := policy.Policy{Weight: 1, Reserve: policy.Amount{Rate: tt.reserve}, AQM: tt.aqm}
		state, _, err := Build(Link{Device: "eth0", Capacity: 100e6, Reserve: 1, Scheduler: SchedulerFair}, []Workload{{Key: "w", Name: "w", Policy: p}}, map[string]ClassID{"w": 1})
		if err != nil || state.Classes[1].AQM != tt.want {
			t.Errorf("%s, %+v: %+v, %v", tt.reserve, tt.aqm, state.Classes[1].AQM, err)
		}
	}
}

func TestPaced(t *testing.T) {
	s := State{Classes: []Class{
		{ID: 0, Name: "host"},
		{ID: 1, Name: "web", Reserve: 1e6, Interval: 5, Queues: []Queue{{Name: "a", Reserve: 1e5, Interval: 7}, {Name: "b"}}},
	}}
	got := s.Paced(map[ClassID]Pacing{
		0: {Class: 9},
		1: {Class: 6, Queues: []Interval{8, 9, 10}},
		7: {Class: 1},
	})
	want := Class{ID: 1, Name: "web", Reserve: 1e6, Interval: 6, Queues: []Queue{{Name: "a", Reserve: 1e5, Interval: 8}, {Name: "b"}}}
	if !got.Classes[1].Equal(want) || got.Classes[0].Interval != 0 {
		t.Errorf("got %+v", got.Classes)
	}
	if s.Classes[1].Interval != 5 || s.Classes[1].Queues[0].Interval != 7 {
		t.Errorf("the former state was changed: %+v", s.Classes[1])
	}
	changes := Diff(s, got)
	if len(changes) != 1 || !changes[0].OnlyPaces() {
		t.Errorf("changes %v", changes)
	}
	got.Classes[1].Max = 5
	if changes := Diff(s, got); len(changes) != 1 || changes[0].OnlyPaces() {
		t.Errorf("with a max: %v", changes)
	}
}
