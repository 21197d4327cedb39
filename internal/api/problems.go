// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir/internal/workload"
)

// mostRefused bounds the number of workloads that a problem names.
const mostRefused = 3

// some names the first of the workloads.
func some(names []string) string {
	named := strings.Join(names[:min(len(names), mostRefused)], ", ")
	if more := len(names) - mostRefused; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return named
}

// Assess returns the problems of the agent and its links, the most important first; empty
// if all is well. A setting that a backend cannot hold on this kernel (LinkStatus.Gaps)
// is no problem as long as no policy asks for it.
func (s Status) Assess() []string {
	problems := []string{}
	for _, l := range s.Links {
		if l.Error != "" {
			problems = append(problems, fmt.Sprintf("link %s is not steered: %s", LinkName(l.Device, l.Direction), l.Error))
		}
	}
	for _, l := range s.Links {
		if l.Down != "" {
			problems = append(problems, fmt.Sprintf("link %s: %s", LinkName(l.Device, l.Direction), l.Down))
		}
	}
	problems = append(problems, s.settingsNotHeld()...)
	if len(s.Links) == 0 {
		problems = append(problems, "no link is steered; name one under links: in "+cmp.Or(s.Config, "weir.yaml"))
	}
	if s.ConfigError != "" {
		problems = append(problems, "the configuration file is wrong, the one before it is in force: "+firstLine(s.ConfigError))
	}
	for _, full := range s.Unwritable {
		problems = append(problems, fmt.Sprintf("%s: %s; make room there, or mount it writable", full.Path, full.Sentence()))
	}
	if len(s.RestartDue) > 0 {
		problems = append(problems, fmt.Sprintf("%s in %s: in force from the next start of the agent on; systemctl restart weir",
			strings.Join(s.RestartDue, ", "), cmp.Or(s.Config, "weir.yaml")))
	}
	if len(s.Refused) > 0 {
		problems = append(problems, fmt.Sprintf("%s: a part of the policy is not in force; weir get NAME says why", some(s.Refused)))
	}
	if len(s.NotHeld) > 0 {
		problems = append(problems, fmt.Sprintf("%s: a part of the policy is not held on this kernel; weir get NAME says which, --accept-gaps takes it so", some(s.NotHeld)))
	}
	for _, src := range s.Sources {
		if src.State == workload.SourceUnavailable {
			problem := fmt.Sprintf("source %s is unavailable: %s", src.Name, src.Note)
			if src.Name == workload.KindDocker {
				problem += "; start it, or write docker: {enabled: false} in weir.yaml"
			}
			problems = append(problems, problem)
		}
	}
	for _, sink := range s.Events.Sinks {
		if problem := sink.problem(); problem != "" {
			problems = append(problems, problem)
		}
	}
	if c := s.Cluster; c != nil && c.State != MemberConnected {
		problem := fmt.Sprintf("the manager at %s: %s", c.Manager, c.State)
		if c.Note != "" {
			problem += ": " + c.Note
		}
		problems = append(problems, problem)
	}
	return problems
}

// settingsNotHeld names the settings of links that a backend does not hold and the user
// has not accepted, each once for both directions.
func (s Status) settingsNotHeld() []string {
	var problems []string
	for _, l := range s.Links {
		for _, g := range l.NotHeld {
			problem := fmt.Sprintf("link %s: %s; take it out of the configuration, or accept_gaps: true in weir.yaml takes it so", l.Device, g.Sentence())
			if !g.Accepted && !slices.Contains(problems, problem) {
				problems = append(problems, problem)
			}
		}
	}
	return problems
}

// firstLine returns a text's first line, with how many follow.
func firstLine(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	if !more {
		return first
	}
	return fmt.Sprintf("%s (and %d more)", first, 1+strings.Count(rest, "\n"))
}
