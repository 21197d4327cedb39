// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
)

// measuring are the packages, below internal/, whose tests measure rates and times of the
// real kernel by this machine's clock: each runs with nothing else beside it. Not one of
// them is run again when it fails.
var measuring = []string{"host/discover", "host/dataplane/goodput", "host/dataplane/ifb", "host/dataplane/tc", "lab/demo", "test/e2e", "lab"}

// lasting are the packages that take longer than a minute, or start engines, brokers and
// machines: steps of their own, two at once. The slowest comes first.
var lasting = []string{"cluster/node", "cluster/bus/kafka", "cluster/migrate", "cluster/migrate/podman",
	"test/dockertest", "host/dataplane/mark", "core/refusal", "test/extendtest", "vm"}

// native returns the steps that test every package on this machine: the same with the
// race detector, or at their full size with -long, where a package has that flag.
func native(prefix string, packages []string, change func(*step)) (steps []step) {
	var quick []string
	for _, p := range packages {
		if !slices.Contains(measuring, short(p)) && !slices.Contains(lasting, short(p)) {
			quick = append(quick, p)
		}
	}
	add := func(name string, alone bool, packages ...string) {
		s := step{Name: prefix + "/" + name, Place: "native", Alone: alone,
			Command: append([]string{"go", "test", "-count=1", "-json", "-timeout", "15m"}, packages...)} // one that hangs is found out
		if name == "test/e2e" {
			s.Command = append(s.Command, "-at-once=2")
		}
		if change != nil {
			change(&s)
		}
		steps = append(steps, s)
	}
	full := func(name string) string {
		i := slices.IndexFunc(packages, func(p string) bool { return short(p) == name })
		if i < 0 {
			return ""
		}
		return packages[i]
	}
	for i, name := range lasting {
		if p := full(name); p != "" {
			add(name, false, p)
		}
		if i == 0 && len(quick) > 0 {
			add("quick", false, quick...)
		}
	}
	for _, name := range measuring {
		if p := full(name); p != "" {
			add(name, true, p)
		}
	}
	return steps
}

// raced makes a native step one with the race detector, which needs C.
func raced(s *step) {
	s.Env = append(s.Env, "CGO_ENABLED=1")
	s.Command = slices.Insert(slices.Clone(s.Command), 2, "-race")
	s.Command[slices.Index(s.Command, "-timeout")+1] = "60m"
}

// longTests returns a step for each package with the flag -long, which takes a duration
// where the source says so.
func longTests(folders map[string]string) (steps []step) {
	for _, folder := range sortedKeys(folders) {
		command := []string{"go", "test", "-count=1", "-json", "-timeout", "4h", "./" + folder, folders[folder]}
		steps = append(steps, step{Name: "long/" + strings.TrimPrefix(folder, "internal/"), Place: "long", Alone: true, Command: command})
	}
	return steps
}
