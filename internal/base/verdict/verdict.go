// SPDX-License-Identifier: Apache-2.0

// Package verdict records whether the conditions hold that a file states about a run: a
// scenario of the lab, or clusters that weir simulate plans for. A verdict is a line of JSON
// in the file that --verdicts names, and docs/bars.md is made from such files:
//
//	{"scenario":"shares","file":"lab/demo/shares.yaml","line":31,"expect":"{rate: ideal, within: 2%}",
//	 "check":"rate","scheduler":"fair","holds":true,"figure":"0.01 % of the ideal"}
//
// The package judges nothing: the lab and weir simulate do, and record the result with it.
package verdict

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Verdict is the result of one condition of a file in one run.
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

// Fail adds a reason why the condition does not hold.
func (v *Verdict) Fail(format string, args ...any) {
	v.Failures = append(v.Failures, fmt.Sprintf("%s:%d: ", v.File, v.Line)+fmt.Sprintf(format, args...))
}

// Failures returns the failures of all verdicts, one line each.
func Failures(list []Verdict) (lines []string) {
	for _, v := range list {
		lines = append(lines, v.Failures...)
	}
	return lines
}

// Add adds a line of JSON for each verdict to a file, which is made if it is not there;
// "" = no file. Errors name the option --verdicts of the commands that judge.
func Add(file string, list []Verdict) (err error) {
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
