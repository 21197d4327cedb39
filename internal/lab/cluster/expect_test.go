// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"reflect"
	"testing"
	"time"

	"weir/internal/base/verdict"
	"weir/internal/cluster/migrate"
	"weir/internal/core/wire"
)

// A verdict names the entry as the file has it, with its line, and what was measured.
func TestVerdictOfAnExpectation(t *testing.T) {
	const text = `name: a move
nodes: [a, b]
containers:
  web: {node: a}
timeline:
  - {migrate: web, to: b, label: first}
expect:
  - {container: web, on: b, exact: true}
  - {label: first, downtime: 1s}
`
	s, err := Parse("move.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got := s.verdict(1, finding{"down for 1.4s", "too long"})
	want := verdict.Verdict{Scenario: "a move", File: "move.yaml", Line: 9, Expect: "{label: first, downtime: 1s}", Check: "downtime",
		Figure: "down for 1.4s", Failures: []string{"move.yaml:9: first: too long"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := s.verdict(0, finding{"on b", ""}); got.Line != 8 || got.Check != "exact, on" || len(got.Failures) > 0 {
		t.Errorf("%+v", got)
	}
}

// Every migration of a label has to be as quick as the expectation says, and there has to
// be one.
func TestDowntimeOfALabel(t *testing.T) {
	made := func(label string, state wire.MoveState, down time.Duration) Event {
		return Event{Subject: "web", To: "b", Label: label, Migration: &migrate.Result{State: state, Downtime: down}, Err: "restore: no"}
	}
	moved := []Event{
		made("idle", wire.MoveDone, 600*time.Millisecond), made("full", wire.MoveDone, 9*time.Second),
		made("idle", wire.MoveDone, 1400*time.Millisecond), made("broken", wire.MoveRolledBack, 0),
		{Label: "refused", Subject: "web", To: "b", Err: "no room"},
	}
	for _, c := range []struct {
		label string
		most  time.Duration
		want  finding
	}{
		{"idle", 1500 * time.Millisecond, finding{"down for 1.4s", ""}},
		{"idle", 1300 * time.Millisecond, finding{"down for 1.4s", "down for 1.4s, expected at most 1.3s"}},
		{"broken", time.Second, finding{"", "the migration of web to b failed: restore: no"}},
		{"refused", time.Second, finding{"", "the migration of web to b failed: no room"}},
		{"none", time.Second, finding{"", "no migration with this label was made"}},
	} {
		if got := slowest(moved, Expectation{Label: c.label, Downtime: c.most}); got != c.want {
			t.Errorf("%s within %v: %+v, want %+v", c.label, c.most, got, c.want)
		}
	}
}
