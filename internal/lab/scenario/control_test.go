// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"math"
	"strings"
	"testing"

	"weir/internal/core/control"
	"weir/internal/core/policy"
)

func TestReservations(t *testing.T) {
	s := mustParse(t, `
link: {bandwidth: 100mbit, delay: 10ms, jitter: 2ms}
control: {kc: 0.125, ti: 0.146, td: 1, start: zero}
workloads:
  greedy: {traffic: [{tcp: {}}]}
  a: {reserve: 10mbit, traffic: [{tcp: {}}]}
  b:
    discipline: cbwfq
    queues: {x: {reserve: 5%, match: [{tcp: 5001}]}, y: {}}
    traffic: [{tcp: {port: 5001}}]
phases:
  - {for: 10s}
  - {for: 10s, set: {a: {reserve: 40%}}}
  - {for: 10s, set: {a: {reserve: none}}}
expect:
  - {phase: 1, workload: a, goodput: 10mbit, within: 0.5%}
  - {phase: 1, settle: 5s, overshoot: 5%}
`)
	if want := (Control{Gains: control.Paper, Cold: true}); s.Control != want {
		t.Errorf("control %+v", s.Control)
	}
	if !s.Reserves() || s.Link.Jitter == 0 {
		t.Errorf("%+v", s.Link)
	}
	var got []policy.Rate
	for _, now := range s.Policies() {
		got = append(got, now[1].Reserve)
	}
	if got[0] != 10e6 || got[1] != 40e6 || got[2] != 0 {
		t.Errorf("reservations %v", got)
	}
	if q := s.Workloads[2].Policy.Queues[0].Reserve; q.Rate != 5e6 {
		t.Errorf("of a queue: %+v", q)
	}
	// The ideal is what a reservation takes on the wire, and the others share the rest.
	ideal := s.Ideals(nil)[0].Ideal
	if math.Abs(ideal[1]-10.455802e6) > 1 || math.Abs(ideal[0]+ideal[1]+ideal[2]-100e6) > 1 || ideal[2] < 5e6 {
		t.Errorf("ideals %v", ideal)
	}
	if e := s.Expect; len(e) != 3 || e[0].Check != CheckGoodput || e[0].Value != 10e6 || e[0].Within.Share != 0.005 || e[1].Check != CheckOvershoot || e[2].Value != 5 {
		t.Errorf("expectations %+v", e)
	}
}

// TestWithoutFeedback: the reserved rate is then one on the wire.
func TestWithoutFeedback(t *testing.T) {
	s := mustParse(t, "link: {bandwidth: 100mbit}\ncontrol: {feedback: off}\nworkloads: {a: {reserve: 10mbit, traffic: [{tcp: {}}]}}")
	if ideal := s.Ideals(nil)[0].Ideal[0]; !s.Control.Open || ideal != 10e6 {
		t.Errorf("ideal %v with %+v", ideal, s.Control)
	}
}

func TestReservationsRefused(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"workloads: {a: {reserve: 10mbit, max: 10mbit}}", "reserve \"10mbit\": 10 Mbit/s of payload take 10.5 Mbit/s on the wire, above the max"},
		{"workloads: {a: {reserve: 60mbit}, b: {reserve: 50mbit}}", "the mins add up to 115.013813 Mbit/s"},
		{"workloads: {a: {}}\ncontrol: {kc: 0}", `control.kc "0": not a gain`},
		{"workloads: {a: {}}\ncontrol: {kp: 1}", "did you mean"},
		{"workloads: {a: {}}\ncontrol: {feedback: maybe}", "feedback"},
		{"workloads: {a: {}}\nexpect: [{phase: 1, workload: a, goodput: 1mbit}]", "needs a margin"},
	} {
		_, err := Parse("x.yaml", []byte("link: {bandwidth: 100mbit}\n"+tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.text, err, tt.want)
		}
	}
	_, err := Parse("x.yaml", []byte("link: {bandwidth: 100mbit, delay: 1ms, jitter: 2ms}\nworkloads: {a: {}}"))
	if err == nil || !strings.Contains(err.Error(), "at most the delay") {
		t.Errorf("jitter: %v", err)
	}
}
