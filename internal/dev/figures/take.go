// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"encoding/json"
	"strings"

	"weir/internal/lab/report"
)

// Failures returns the complaints in what the lab wrote to its standard error.
func Failures(log []byte) (list []string) {
	for line := range strings.Lines(string(log)) {
		for _, kind := range []string{"expectation does not hold: ", "problem: "} {
			if what, found := strings.CutPrefix(strings.TrimSpace(line), kind); found {
				list = append(list, what)
			}
		}
	}
	return list
}

// Shorten a workload's line by its flows where there is one without a queue: it says the
// same again.
func Shorten(line []byte) ([]byte, error) {
	var w report.Workload
	if err := json.Unmarshal(line, &w); err != nil {
		return nil, err
	}
	if w.Workload == "" || w.Phase == 0 || len(w.Flows) != 1 || w.Flows[0].Queue != "" {
		return line, nil
	}
	w.Flows = nil
	return json.Marshal(w)
}
