// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/migrate"
)

// subject is what an expectation is about, for people.
func (e Expectation) subject() string { return cmp.Or(e.Container, e.Label, "the cluster") }

// slowest says which of the migrations with the expectation's label stood still for
// longer than it allows, "" if none did. One that did not succeed has no downtime.
func slowest(moved []Event, e Expectation) string {
	found := false
	var worst time.Duration
	for _, m := range moved {
		if m.Label != e.Label {
			continue
		}
		if m.Migration == nil || m.Migration.State != migrate.StateDone {
			return fmt.Sprintf("the migration of %s to %s failed: %s", m.Subject, m.To, m.Err)
		}
		found, worst = true, max(worst, m.Migration.Downtime)
	}
	switch {
	case !found:
		return "no migration with this label was made"
	case worst > e.Downtime:
		return fmt.Sprintf("down for %v, expected at most %v", worst.Round(time.Millisecond), e.Downtime)
	}
	return ""
}

// checkS asks the manager for the S of the cluster as it is now.
func (l *lab) checkS(ctx context.Context, most float64) string {
	text, err := l.plane.weir(ctx, "", "plan", "-o", "json")
	if err != nil {
		return fmt.Sprintf("weir plan: %v: %s", err, text)
	}
	var plan api.ClusterPlan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		return fmt.Sprintf("weir plan: %v", err)
	}
	if plan.Before.S > most {
		return fmt.Sprintf("S is %.4g, expected at most %.4g", plan.Before.S, most)
	}
	return ""
}
