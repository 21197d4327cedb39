// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"strings"
	"testing"

	"weir/internal/lab/report"
)

func TestWords(t *testing.T) {
	list := []float64{1, 3, 2}
	if got := Joined(list, "%.1f", "ms"); got != "1.0, 3.0 and 2.0 ms" || Largest(list) != 3 || Spread(list) != 2 {
		t.Errorf("%q, %g, %g", got, Largest(list), Spread(list))
	}
}

// TestBarsLeaveOutWhatIsNotThere: a workload that does not send has no bar.
func TestBarsLeaveOutWhatIsNotThere(t *testing.T) {
	phases := [][]report.Workload{{{Workload: "c1", RateBps: 50e6, IdealBps: 50e6}, {Workload: "c2"}}}
	svg := string(Bars("rates", "Mbit/s", phases, Rate, 0))
	if n := strings.Count(svg, "<rect"); n != 4 { // the ground, two swatches, one bar
		t.Errorf("%d boxes, want 4:\n%s", n, svg)
	}
	if !strings.Contains(svg, ">c2</text>") || !strings.Contains(svg, ">rates</text>") {
		t.Errorf("no name of a workload, or no title:\n%s", svg)
	}
	compared := string(Compared("CPU", "%", "containers", []string{"fair", "htb"}, [][]report.Link{{{RateBps: 1e6}}, {{RateBps: 2e6}}}, Aggregate))
	if strings.Count(compared, "<rect") != 5 {
		t.Errorf("two bars are wanted:\n%s", compared)
	}
	if strings.Count(string(Compared("CPU", "%", "containers", []string{"fair"}, [][]report.Link{{{}}}, CPU)), "<rect") != 2 {
		t.Error("CPU time that was not measured is drawn")
	}
}
