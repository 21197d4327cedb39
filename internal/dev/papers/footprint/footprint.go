// SPDX-License-Identifier: Apache-2.0

// Package footprint writes the tables of docs/deploy.md about what the program takes: its size,
// its start, its memory, and the libraries in it. Example: a program of 57.7 MB, of which the
// largest library has 20, has a row of it and one of all libraries below 1 %.
//
// It measures nothing; scripts/footprint does.
package footprint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"weir/internal/dev/markdown"
)

// File has what scripts/footprint has measured: a line for each checkout, the
// present one last.
const File = "docs/footprint.jsonl"

// footprint is a line of that file.
type footprint struct {
	Name     string  `json:"name"` // that the table gives the checkout
	Commit   string  `json:"commit"`
	Date     string  `json:"date"`
	Go       string  `json:"go"`
	Bytes    float64 `json:"bytes"` // of the stripped program
	Packages int     `json:"packages"`
	StartMS  float64 `json:"start_ms"`     // wall time of weir version
	CPUMS    float64 `json:"start_cpu_ms"` // CPU time of it
	Memory   []struct {
		Workloads   int     `json:"workloads"`
		ResidentKB  float64 `json:"resident_kb"`
		AnonymousKB float64 `json:"anonymous_kb"`
	} `json:"memory"`
	Libraries map[string]float64 `json:"libraries"` // name to bytes
}

// Block returns the tables of docs/deploy.md about what weir takes.
func Block(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, File))
	if err != nil {
		return "", err
	}
	var list []footprint
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var f footprint
		if err := d.Decode(&f); err != nil {
			return "", fmt.Errorf("%s: %w", File, err)
		}
		list = append(list, f)
	}
	if len(list) == 0 {
		return "", fmt.Errorf("%s is empty; measure: scripts/footprint", File)
	}
	return compared(list) + "\n" + libraries(list[len(list)-1]), nil
}

// compared returns a table with a column for each checkout.
func compared(list []footprint) string {
	head, size, packages, start := []string{""}, []string{"program, stripped"}, []string{"Go packages in it"}, []string{"`weir version`: time, CPU time (medians of 20)"}
	memory := make([][]string, len(list[0].Memory))
	for i, m := range list[0].Memory {
		memory[i] = []string{fmt.Sprintf("memory of `weir agent` with %s workloads: resident, of that anonymous", markdown.Thousands(float64(m.Workloads)))}
	}
	for _, f := range list {
		head = append(head, fmt.Sprintf("%s (`%.12s`, %s)", f.Name, f.Commit, f.Date))
		size = append(size, fmt.Sprintf("%.1f MB", f.Bytes/1e6))
		packages = append(packages, markdown.Thousands(float64(f.Packages)))
		start = append(start, fmt.Sprintf("%.0f ms, %.0f ms", f.StartMS, f.CPUMS))
		for i, m := range f.Memory {
			memory[i] = append(memory[i], fmt.Sprintf("%.1f MB, %.1f MB", m.ResidentKB*1024/1e6, m.AnonymousKB*1024/1e6))
		}
	}
	return markdown.Table(append([][]string{head, size, packages, start}, memory...)...)
}

// libraries returns a table of what the program is made of, the largest part first.
func libraries(f footprint) string {
	names := slices.SortedFunc(maps.Keys(f.Libraries), func(a, b string) int { return cmp.Compare(f.Libraries[b], f.Libraries[a]) })
	rows := [][]string{{"in the program of `" + f.Commit[:12] + "`", "MB"}}
	rest := f.Bytes
	for _, name := range names {
		rows = append(rows, []string{name, fmt.Sprintf("%.1f", f.Libraries[name]/1e6)})
		rest -= f.Libraries[name]
	}
	return markdown.Table(append(rows, []string{"all others, each below 1 %", fmt.Sprintf("%.1f", rest/1e6)})...)
}
