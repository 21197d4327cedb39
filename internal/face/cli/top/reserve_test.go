// SPDX-License-Identifier: Apache-2.0

package top

import (
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
)

// TestReservations: a link on which something is reserved has a column for it, and
// others look as they did.
func TestReservations(t *testing.T) {
	w := apitest.Reserved("cam", 10)
	unmeasured := apitest.Reserved("new", 5)
	unmeasured.Links[0].GoodputBps, unmeasured.Links[0].Control = nil, "unmeasured"
	plainOne := apitest.Workload("web", 1, 0, 0, 50)
	sample := api.Sample{At: apitest.Start, Links: []api.LinkStatus{link("eth0", 100e6)}, Workloads: []api.Workload{w, unmeasured, plainOne}}
	text := PlainHeader() + Plain(sample, time.UTC)
	for _, want := range []string{"GOODPUT/RESERVE", "10.0/10.0", "?/5.0"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	st := &state{sample: sample}
	rows := st.rows(api.LinkName("eth0", "egress"), orders[0])
	if got := columnsFor(rows); len(got) != len(columns)+1 {
		t.Errorf("%d columns", len(got))
	}
	if got := columnsFor(rows[:0]); len(got) != len(columns) {
		t.Errorf("%d columns without a reservation", len(got))
	}
	for _, width := range []int{40, 80, 120, 200} {
		if l := fit(width, 10, columnsFor(rows)); l.width() > width && len(l.columns) > 1 {
			t.Errorf("%d columns in a width of %d need %d", len(l.columns), width, l.width())
		}
	}
}
