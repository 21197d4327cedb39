// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Verdict is what became of one condition of a scenario file in one run.
type Verdict struct {
	Scenario  string   `json:"scenario"`
	File      string   `json:"file"`
	Line      int      `json:"line"`
	Expect    string   `json:"expect"` // the entry as the file has it
	Check     string   `json:"check"`  // the condition in it, since an entry may have several
	Scheduler string   `json:"scheduler"`
	Holds     bool     `json:"holds"`
	Figure    string   `json:"figure"` // what was measured, the worst where there are several; "" = nothing
	Failures  []string `json:"failures,omitempty"`
}

// fail adds a reason why the condition does not hold.
func (v *Verdict) fail(format string, args ...any) {
	v.Failures = append(v.Failures, fmt.Sprintf("%s:%d: ", v.File, v.Line)+fmt.Sprintf(format, args...))
}

// Failures are those of all verdicts, one line each.
func Failures(list []Verdict) (lines []string) {
	for _, v := range list {
		lines = append(lines, v.Failures...)
	}
	return lines
}

// AddVerdicts adds a line of JSON for each verdict to a file, which is made if it is not
// there; "" = no file. Errors name the option --verdicts of the lab's commands.
func AddVerdicts(file string, list []Verdict) (err error) {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("--verdicts: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	enc := json.NewEncoder(f)
	enc.SetEscapeHTML(false)
	for _, v := range list {
		v.Holds = len(v.Failures) == 0
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("--verdicts: %w", err)
		}
	}
	return nil
}

// VerdictTable says which expectations do not hold, or that all do; "" if there
// are none.
func VerdictTable(list []Verdict) string {
	failures := Failures(list)
	switch {
	case len(failures) > 0:
		return "\nexpectations that do not hold:\n  " + strings.Join(failures, "\n  ") + "\n"
	case len(list) > 0:
		return fmt.Sprintf("\nall expectations hold (%d)\n", len(list))
	}
	return ""
}
