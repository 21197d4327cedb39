// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/lab/peers"
)

// htb-tuned can be measured nowhere but in a machine of vm/run. What it is measured
// beside is measured all the same, and the one that failed is named.
func TestASchedulerThatFailsLeavesTheOthersTheirResults(t *testing.T) {
	needLab(t)
	for _, c := range []struct {
		name, text, result, complaint string
		exit                          int
	}{
		{"cost", "cost: {packets: 100, cases: [veths], schedulers: [" + peers.HTBTuned + ", none]}\nexpect: [{scheduler: none, added: 1s}]",
			`"scheduler":"none"`, "not measured: case veths, htb-tuned with 5 workloads: ", ExitFailed},
		{"phases", "link: {bandwidth: 20mbit}\nscheduler: " + peers.HTBTuned + "\nbeside: [none]\nsettle: 100ms\nworkloads: {a: {traffic: [{ping: {}}]}}\nphases: [{for: 500ms}]",
			`"scheduler":"none"`, "scheduler htb-tuned: ", ExitBroken},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "test.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			exit, err := Run(t.Context(), Options{Files: []string{file}, JSON: true, Stdout: &out, Stderr: &errs})
			said := errs.String()
			if err != nil {
				said += err.Error()
			}
			if exit != c.exit || !strings.Contains(said, c.complaint) || !strings.Contains(out.String(), c.result) {
				t.Errorf("exit %d, said %q, measured %s", exit, said, out.String())
			}
		})
	}
}
