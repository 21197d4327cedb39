// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	"weir/internal/config"
	"weir/internal/discover"
	"weir/internal/plan"
)

// Foresee says what of a configuration an agent would not put into force if all
// workloads and groups were there that it calls by their whole name, and no others:
// a line for each, by name. Patterns, labels and what is set at run time come on top.
func Foresee(c config.Config) []string {
	d := decide(world{config: c, number: map[string]plan.ClassID{}}.foreseen())
	var notes []string
	for _, v := range append(d.verdicts, d.groups...) {
		if v.state == stateRefused {
			notes = append(notes, v.Name+": "+v.note)
		}
	}
	return notes
}

// foreseen is the world with all workloads that its configuration calls by their whole
// name, also those that are not there.
func (w world) foreseen() world {
	w = w.clone()
	for _, name := range w.config.Named() {
		if !slices.ContainsFunc(w.found, func(f discover.Workload) bool { return f.Name == name }) {
			w.found = append(w.found, discover.Workload{Key: "foreseen:" + name, Name: name})
		}
	}
	return w
}
