// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	"weir/internal/cluster/migrate"
)

// Every migration of a label has to be as quick as the expectation says, and there has to
// be one.
func TestDowntimeOfALabel(t *testing.T) {
	made := func(label string, state migrate.State, down time.Duration) Event {
		return Event{Subject: "web", To: "b", Label: label, Migration: &migrate.Result{State: state, Downtime: down}, Err: "restore: no"}
	}
	moved := []Event{
		made("idle", migrate.StateDone, 600*time.Millisecond), made("full", migrate.StateDone, 9*time.Second),
		made("idle", migrate.StateDone, 1400*time.Millisecond), made("broken", migrate.StateRolledBack, 0),
		{Label: "refused", Subject: "web", To: "b", Err: "no room"},
	}
	for _, c := range []struct {
		label string
		most  time.Duration
		want  string
	}{
		{"idle", 1500 * time.Millisecond, ""},
		{"idle", 1300 * time.Millisecond, "down for 1.4s, expected at most 1.3s"},
		{"broken", time.Second, "the migration of web to b failed: restore: no"},
		{"refused", time.Second, "the migration of web to b failed: no room"},
		{"none", time.Second, "no migration with this label was made"},
	} {
		if got := slowest(moved, Expectation{Label: c.label, Downtime: c.most}); got != c.want {
			t.Errorf("%s within %v: %q, want %q", c.label, c.most, got, c.want)
		}
	}
}
