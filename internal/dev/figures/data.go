// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/lab/report"
)

// Folder is the folder of the data, below the module's root.
const Folder = "docs/papers/data"

// Origin says where the results of a run come from.
type Origin struct {
	Scenario  string `json:"scenario"` // file, from the module's root
	Digest    string `json:"digest"`   // of what of the scenario decides the measurement: Digest
	Scheduler string `json:"scheduler,omitempty"`
	Commit    string `json:"commit"`         // of the program that was run, 40 hexadecimal digits
	Kernel    string `json:"kernel"`         // as uname -r prints it
	Seed      uint64 `json:"seed,omitempty"` // of the random draws; 0: there are none
	Date      string `json:"date"`           // YYYY-MM-DD, UTC
	Machine   string `json:"machine"`        // Virtual or what else it ran on
	Command   string `json:"command"`        // that repeats the run, from the module's root
	Status    int    `json:"status"`         // of the command: 1 = an expectation does not hold
	// Failures are the expectations that did not hold and the generators' problems, a line
	// each.
	Failures []string `json:"failures,omitempty"`
	// Plot is the SHA-256 of the run's picture, in hexadecimal; "" = there is none.
	Plot string `json:"plot,omitempty"`

	stale string // what Measured says of the commit's age; "" = nothing
}

// Virtual is the Machine of a run in virtual time.
const Virtual = "one emulated CPU, virtual time: one instruction is one nanosecond"

// Run is one run: the content of one file of the folder.
type Run struct {
	Name   string // PAPER/NAME
	Source Origin
	Lines  [][]byte // the results, one JSON object each
}

// Runs is all runs that there are, by name.
type Runs struct {
	runs      map[string]*Run
	staleList string         // text of the file
	since     map[age]string // the same, read: days
}

// Load reads all runs from the folder that Folder names. An error names the file.
func Load(folder fs.FS) (*Runs, error) {
	d := &Runs{runs: map[string]*Run{}}
	names, err := fs.Glob(folder, "*/*.jsonl")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		r, err := Parse(strings.TrimSuffix(name, ".jsonl"), text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(Folder, name), err)
		}
		d.runs[r.Name] = r
	}
	text, err := fs.ReadFile(folder, staleList)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := d.readStale(text); err != nil {
		return nil, fmt.Errorf("%s: %w", path.Join(Folder, staleList), err)
	}
	return d, nil
}

// Parse reads the text of one file.
func Parse(name string, text []byte) (*Run, error) {
	r := &Run{Name: name}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			r.Lines = append(r.Lines, line)
		}
	}
	var head struct{ Run *Origin }
	if len(r.Lines) == 0 {
		return nil, errors.New("empty; remove it and measure again with scripts/papers")
	}
	if err := json.Unmarshal(r.Lines[0], &head); err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	if head.Run == nil || head.Run.Commit == "" {
		return nil, errors.New(`line 1: no {"run":{"commit":...}}; remove it and measure again with scripts/papers`)
	}
	r.Source, r.Lines = *head.Run, r.Lines[1:]
	return r, nil
}

// Text is the file's text, which Parse reads.
func (r *Run) Text() ([]byte, error) {
	head, err := json.Marshal(struct {
		Run Origin `json:"run"`
	}{r.Source})
	if err != nil {
		return nil, err
	}
	return append(bytes.Join(append([][]byte{head}, r.Lines...), []byte("\n")), '\n'), nil
}

// Run of a name such as "qcon/fig07-fair"; nil if it was not run.
func (d *Runs) Run(name string) *Run { return d.runs[name] }

// Names of all runs, sorted.
func (d *Runs) Names() []string {
	var list []string
	for name := range d.runs {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// By is the run with the results of one scheduler only, for runs that compare several.
func (r *Run) By(scheduler string) *Run {
	only := &Run{Name: r.Name, Source: r.Source}
	for _, line := range r.Lines {
		var of struct {
			Scheduler string `json:"scheduler"`
		}
		if json.Unmarshal(line, &of) == nil && of.Scheduler == scheduler {
			only.Lines = append(only.Lines, line)
		}
	}
	return only
}

// Paper is the folder that the run is in.
func (r *Run) Paper() string { return path.Dir(r.Name) }

// Workloads returns a phase's workloads, in the scenario's order; phases count from 1. Nil if the
// run is nil or has no such phase.
func (r *Run) Workloads(phase int) (list []report.Workload) {
	if r == nil {
		return nil
	}
	for _, line := range r.Lines {
		var w report.Workload
		if json.Unmarshal(line, &w) == nil && w.Workload != "" && w.Phase == phase {
			list = append(list, w)
		}
	}
	return list
}

// Workload of a phase by its name; false if the run is nil or does not have it.
func (r *Run) Workload(phase int, name string) (report.Workload, bool) {
	for _, w := range r.Workloads(phase) {
		if w.Workload == name {
			return w, true
		}
	}
	return report.Workload{}, false
}

// Flow of a workload by its name, such as "tcp_rr:7000"; false if there is none.
func (r *Run) Flow(phase int, workload, flow string) (report.Flow, bool) {
	w, _ := r.Workload(phase, workload)
	for _, f := range w.Flows {
		if f.Flow == flow {
			return f, true
		}
	}
	return report.Flow{}, false
}

// Link of a phase; false if the run is nil or has no such phase.
func (r *Run) Link(phase int) (report.Link, bool) {
	if r == nil {
		return report.Link{}, false
	}
	for _, line := range r.Lines {
		var l report.Link
		if json.Unmarshal(line, &l) == nil && l.Link != "" && l.Phase == phase {
			return l, true
		}
	}
	return report.Link{}, false
}

// Phases returns the number of the run's phases.
func (r *Run) Phases() int {
	n := 0
	for {
		if _, found := r.Link(n + 1); !found {
			return n
		}
		n++
	}
}

// Costs are the rows of a cost measurement that have figures, none if the run is nil or measured
// something else.
func (r *Run) Costs() (list []report.CostRow) {
	for _, row := range rows[report.CostRow](r) {
		if row.Case != "" && row.Problem == "" {
			list = append(list, row)
		}
	}
	return list
}

// Timings are the rows of a timing measurement, none if the run is nil or measured something else.
func (r *Run) Timings() (list []report.TimingRow) {
	for _, row := range rows[report.TimingRow](r) {
		if row.Packets > 0 {
			list = append(list, row)
		}
	}
	return list
}

// rows are the lines that can be read as a T.
func rows[T any](r *Run) (list []T) {
	if r == nil {
		return nil
	}
	for _, line := range r.Lines {
		var row T
		if json.Unmarshal(line, &row) == nil {
			list = append(list, row)
		}
	}
	return list
}

// Write writes the run's file below the module's root.
func (r *Run) Write(root string) error {
	text, err := r.Text()
	if err != nil {
		return err
	}
	file := filepath.Join(root, Folder, r.Name+".jsonl")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
