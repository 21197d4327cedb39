// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"weir/internal/lab/scenario"
)

// On the fallback the table and the picture say that HTB scheduled.
func TestScheduled(t *testing.T) {
	for backend, want := range map[string]string{"bpf": "fair", "tc": "HTB in place of fair", "kernel": "fair"} {
		r := &Result{Scenario: &scenario.Scenario{Name: "shares", Phases: []scenario.Phase{{}}}, Scheduler: "fair", Backend: backend}
		p, err := draft(r)
		if err != nil || p.Title.Text != "shares ("+want+")" {
			t.Errorf("%s: the picture is called %q, %v", backend, p.Title.Text, err)
		}
		var text strings.Builder
		if err := Table(&text, r); err != nil || !strings.Contains(text.String(), "scheduler "+want+" ("+backend+"), link") {
			t.Errorf("%s: the table has\n%s%v", backend, &text, err)
		}
	}
}
