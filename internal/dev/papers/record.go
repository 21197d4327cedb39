// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"weir/internal/dev/figures"
)

// record makes a run's data of what scripts/papers left below raw: NAME.json (standard
// output), NAME.log (standard error), NAME/kernel, and NAME/*.svg, which goes to the page's
// plots. commit is that of the program, status the exit status of the run.
func record(root, raw, commit, status, name string) error {
	p, w, err := find(name)
	if err != nil {
		return err
	}
	base := filepath.Join(raw, name)
	results, err := os.ReadFile(base + ".json")
	if err != nil {
		return err
	}
	log, err := os.ReadFile(base + ".log")
	if err != nil {
		return err
	}
	kernel, err := os.ReadFile(filepath.Join(base, "kernel"))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, p.file(w)))
	if err != nil {
		return err
	}
	r := &figures.Run{Name: name, Source: figures.Origin{
		Scenario: p.file(w), Digest: figures.Digest(text), Scheduler: w.scheduler, Commit: commit,
		Kernel: strings.TrimSpace(string(kernel)), Date: time.Now().UTC().Format(time.DateOnly), Machine: figures.Virtual,
		Command: p.command(w), Failures: figures.Failures(log),
	}}
	if r.Source.Status, err = strconv.Atoi(status); err != nil {
		return fmt.Errorf("status %q is no number", status)
	}
	if r.Source.Plot, err = p.takePlot(root, base, name); err != nil {
		return err
	}
	if p.real {
		r.Source.Machine = "this machine's own kernel and clock, containers of real engines"
	}
	for line := range bytes.Lines(results) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if p.real {
				r.Lines = append(r.Lines, line)
				continue
			}
			if line, err = figures.Shorten(line); err != nil {
				return fmt.Errorf("%s.json: %w", base, err)
			}
			r.Lines = append(r.Lines, line)
		}
	}
	return r.Write(root)
}

// find the run of a name.
func find(name string) (*paper, want, error) {
	for _, p := range papers {
		for _, w := range p.wanted() {
			if p.name+"/"+w.name() == name {
				return p, w, nil
			}
		}
	}
	return nil, want{}, fmt.Errorf("no run is called %s; papers runs lists all", name)
}

// takePlot copies the run's picture to where the page shows it and returns its digest.
func (p *paper) takePlot(root, base, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(base, path.Base(name)+".svg"))
	if err != nil || p.head == "" && !p.pictures {
		return "", nil // cost and timing draw nothing, and some runs' plots are on no page
	}
	file := filepath.Join(root, pages, name+".svg")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	return digest(text), os.WriteFile(file, text, 0o644)
}
