// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"strings"
	"testing"

	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// rows are a measurement in which udp_sendmsg costs the same everywhere.
func rows() []report.CostRow {
	row := func(scheduler string, ns float64, functions ...report.Function) report.CostRow {
		return report.CostRow{Case: scenario.CostVeths, Scheduler: scheduler, NsPerPacket: ns, BaseNs: 9000, Functions: functions}
	}
	same := report.Function{Name: "udp_sendmsg", NsPerPacket: 500}
	return []report.CostRow{
		row("none", 9000, same), row("none, marked", 9130), row("root-pfifo", 9240), row("root-pfifo+mark", 9370),
		row("pfifo+mark", 9670), row("bpf-null", 9500), row("fair", 10040),
		row(NullMarked, 9630, same, report.Function{Name: "null_enqueue (BPF)", NsPerPacket: 30}),
		row(Default, 10050, same, report.Function{Name: "weir_enqueue (BPF)", NsPerPacket: 120}),
	}
}

func TestAdded(t *testing.T) {
	text, err := Added(rows())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `bpf-null+mark` | the same, marked: **the platform's part** | 630 |\n",
		"**Weir's own part** is 410 instructions with FIFOs and 420 by default; 630 are the platform's and the marking's.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	if _, err := Added(rows()[1:4]); err == nil {
		t.Error("a table of what was not measured")
	}
}

// Functions by which no two columns differ are in the last row but one.
func TestFunctions(t *testing.T) {
	text, err := Functions(rows())
	if err != nil {
		t.Fatal(err)
	}
	const want = "| `weir_enqueue (BPF)` | 0 | 0 | 120 | 0 | +120 |\n| `null_enqueue (BPF)` | 0 | 30 | 0 | +30 | -30 |\n" +
		"| all others | 9,000 | 9,600 | 9,930 | +600 | +330 |\n| **a packet's whole way** | 9,000 | 9,630 | 10,050 | +630 | +420 |\n"
	if !strings.HasSuffix(text, want) {
		t.Errorf("got\n%s\nwant at its end\n%s", text, want)
	}
	list := rows()
	list[0].Functions = nil
	if _, err := Functions(list); err == nil || err.Error() != "the functions of none were not measured" {
		t.Errorf("without the functions of one: %v", err)
	}
}
