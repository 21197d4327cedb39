// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/lab/peers"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// htb-tuned can be measured nowhere but in a machine of vm/run, and this kernel may lack
// fq. The schedulers beside it are measured all the same, the row of the failed one says
// why, and the exit status is 1.
func TestASchedulerThatFailsLeavesTheOthersTheirResults(t *testing.T) {
	needLab(t)
	for _, c := range []struct {
		name, text             string
		result, row, complaint string // with JSON
		table                  string
	}{
		{
			"cost", "name: n\ncost: {packets: 100, cases: [veths], schedulers: [" + peers.HTBTuned + ", none]}\nexpect: [{scheduler: none, added: 1s}]",
			`"scheduler":"none"`, `{"scenario":"n","case":"veths","scheduler":"htb-tuned","backend":"","workloads":5,"active":5,"problem":"scheduler htb-tuned: htb_hysteresis`,
			"problem: FILE: case veths, htb-tuned with 5 workloads: not measured: ", "htb-tuned 5 - - - - not measured: scheduler htb-tuned: ",
		},
		{
			"phases", "name: n\nlink: {bandwidth: 20mbit}\nscheduler: " + peers.HTBTuned + "\nbeside: [none]\nsettle: 100ms\nworkloads: {a: {traffic: [{ping: {}}]}}\nphases: [{for: 3s}]\n" +
				"expect: [{scheduler: none, rtt_mean: 1s}]",
			`"scheduler":"none"`, `{"scenario":"n","scheduler":"htb-tuned","problem":"scheduler htb-tuned: htb_hysteresis`,
			"problem: FILE: scheduler htb-tuned: not measured: ", "n scheduler htb-tuned: not measured: ",
		},
		{
			"timing", "name: n\ntiming: {packets: 100, schedulers: [fq, tbf]}\nexpect: [{scheduler: tbf, late_p50: 1s}]",
			`"scheduler":"tbf"`, `{"scenario":"n","scheduler":"fq","busy":false,"problem":"`,
			"problem: FILE: fq, CPUs idle: not measured: ", "fq idle - - - - - - not measured: ",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "test.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			run := func(json bool) (out, errs string) {
				var stdout, stderr bytes.Buffer
				exit, err := Run(t.Context(), Options{Files: []string{file}, JSON: json, Stdout: &stdout, Stderr: &stderr})
				if c.name == "timing" && exit == ExitOK {
					t.Skip("this kernel has fq, so that no scheduler of a timing measurement fails")
				}
				if exit != ExitFailed || err != nil {
					t.Errorf("exit %d, %v; want %d", exit, err, ExitFailed)
				}
				return stdout.String(), strings.ReplaceAll(stderr.String(), file, "FILE")
			}
			out, errs := run(true)
			for _, want := range []string{c.result, c.row} {
				if !strings.Contains(out, want) {
					t.Errorf("the output lacks %s:\n%s", want, out)
				}
			}
			if !strings.Contains(errs, c.complaint) || strings.Contains(errs, "does not hold") {
				t.Errorf("complaints: %s", errs)
			}
			out, _ = run(false)
			if !strings.Contains(strings.Join(strings.Fields(out), " "), c.table) || !strings.Contains(out, "all expectations hold (1)") {
				t.Errorf("the table lacks %q, or the expectation is not judged:\n%s", c.table, out)
			}
		})
	}
}

// A bench that cannot go on ends the measurement, and the rows that it has are kept.
func TestACostMeasurementThatEndsEarlyKeepsItsRows(t *testing.T) {
	b := &bench{spec: &scenario.CostRun{Cases: scenario.CostCases}}
	row := func(name string) func(context.Context) error {
		return func(context.Context) error {
			b.rows = append(b.rows, report.CostRow{Case: name, Scheduler: "none", NsPerPacket: 2, BaseNs: 1})
			return nil
		}
	}
	stopped := b.all(t.Context(), []costPart{
		{row(scenario.CostVeths), []string{scenario.CostVeths}},
		{func(context.Context) error { return errors.New("up0 has still its qdisc") }, []string{scenario.CostAll, scenario.CostOne}},
		{row(scenario.CostFull), []string{scenario.CostFull}},
	})
	if len(b.rows) != 1 || stopped != "what was left of case all, one, and the cases after it: up0 has still its qdisc" {
		t.Fatalf("%d rows, stopped %q", len(b.rows), stopped)
	}
	r := report.CostResult{Rows: b.rows, Stopped: stopped}
	var out bytes.Buffer
	if err := report.CostTable(&out, &r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\nnot measured: "+stopped) || len(r.Figures()) != 1 || len(r.Problems()) != 1 {
		t.Errorf("figures %v, problems %q:\n%s", r.Figures(), r.Problems(), out.String())
	}
}
