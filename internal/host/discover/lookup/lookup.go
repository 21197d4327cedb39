// SPDX-License-Identifier: Apache-2.0

// Package lookup finds the workload that a person means by what they wrote: the key of one, its
// name, or the beginning of its engine's id.
//
//	w, err := lookup.One("we", workloads) // no workload is called "we"; did you mean web?
package lookup

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/core/closest"
	"weir/internal/core/refusal"
	"weir/internal/host/discover"
)

// One finds the one workload that a person means: by its key, its name, or a
// prefix of its engine's id that no other id has. The error is a *refusal.Error.
func One(name string, workloads []discover.Workload) (discover.Workload, error) {
	matches := []func(w discover.Workload) bool{
		func(w discover.Workload) bool { return w.Key == name },
		func(w discover.Workload) bool { return w.Name == name },
		func(w discover.Workload) bool { return name != "" && strings.HasPrefix(w.ID, name) },
	}
	for i, match := range matches {
		var found []discover.Workload
		for _, w := range workloads {
			if match(w) {
				found = append(found, w)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			return discover.Workload{}, ambiguous(name, found, i == 2)
		}
	}
	return discover.Workload{}, unknown(name, workloads)
}

func ambiguous(name string, found []discover.Workload, byID bool) error {
	const most = 5
	var list []string
	for _, w := range found {
		if byID {
			list = append(list, fmt.Sprintf("%s (%s)", w.Name, short(w.ID)))
		} else {
			list = append(list, w.Key)
		}
	}
	slices.Sort(list)
	text := strings.Join(list[:min(most, len(list))], ", ")
	if rest := len(list) - most; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	e := &refusal.Error{Kind: refusal.Invalid, Field: "name", Value: name,
		Msg: fmt.Sprintf("%q fits %d workloads: %s", name, len(found), text), Remedy: "give the whole key of one"}
	if byID {
		e.Remedy = "give a longer part of the id, or the name"
	}
	return e
}

func unknown(name string, workloads []discover.Workload) error {
	var names []string
	for _, w := range workloads {
		names = append(names, w.Name)
	}
	e := &refusal.Error{Kind: refusal.Unknown, Field: "name", Value: name,
		Msg: fmt.Sprintf("no workload is called %q", name), Remedy: "weir get lists those that there are"}
	if near := closest.Words(name, names, 3); len(near) > 0 {
		e.Remedy = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return e
}

// short returns an engine's id as docker shows it.
func short(id string) string { return id[:min(12, len(id))] }
