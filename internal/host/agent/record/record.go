// SPDX-License-Identifier: Apache-2.0

// Package record writes down what an agent does, for people: in its log, and what changes
// policies in the audit log too. Example: after a commit,
//
//	r.Decided(ctx, before, after, why) // "workload does not have all that was asked for it"
//	r.Changes(log, changes)            // "web: weight 1 -> 3"
//
// It decides nothing, and keeps nothing but what the logs keep.
package record

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"weir/internal/base/audit"
	"weir/internal/config"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/decide/difference"
)

// WhyConfig is the reason of what a configuration file changes.
const WhyConfig = "configuration changed"

// Recorder has the two logs.
type Recorder struct {
	Log   *slog.Logger
	Audit *audit.Log // nil = there is none
}

// Decided writes down how a decision differs from the one before, as far as the plans do not
// show it.
func (r Recorder) Decided(ctx context.Context, before, after decide.Decision, why decide.Reasons) {
	r.states(before, after, why)
	r.linkGaps(before, after)
	r.policies(ctx, before, after, why)
}

// policies writes to the audit log whose policy a commit changes. The change that a
// request asks for goes into the request's line; all others have lines of their own.
// A workload that appears has one if its labels ask for something.
func (r Recorder) policies(ctx context.Context, before, after decide.Decision, why decide.Reasons) {
	if r.Audit == nil && !audit.Under(ctx) {
		return
	}
	var entries []audit.Entry
	for _, d := range difference.All(before, after) {
		was, is := orNil(d.Was), orNil(d.Is)
		reason, asked := why.ByKey[d.Key]
		if asked && audit.Note(ctx, d.Name, was, is) {
			continue
		}
		if via := viaOf(d, why); via != "" {
			entries = append(entries, audit.Entry{Who: audit.Who{Via: via}, Action: "policy", Object: d.Name,
				Before: was, After: is, Result: audit.Done, Reason: cmp.Or(reason, why.General)})
		}
	}
	r.Audit.Append(entries...)
}

// viaOf returns the way by which a difference came about, "" if no person made it: a workload
// appears or goes with the policy that all have.
func viaOf(d difference.Difference, why decide.Reasons) string {
	switch {
	case why.General == WhyConfig:
		return audit.ViaConfig
	case d.ByLabel:
		return audit.ViaLabel
	case d.Appears || d.Goes:
		return ""
	}
	return audit.ViaAgent
}

// orNil returns fields as a value that is nil if there are none.
func orNil(fields map[string]any) any {
	if len(fields) == 0 {
		return nil
	}
	return fields
}

// Link writes to the audit log that a link was taken over or given back.
func (r Recorder) Link(action, name, why string) {
	r.Audit.Append(audit.Entry{Who: audit.Who{Via: audit.ViaAgent}, Action: action, Object: name, Result: audit.Done, Reason: why})
}

// BadConfig logs the mistakes of a configuration that was read again, in one line.
func (r Recorder) BadConfig(file string, err error) {
	r.Reload(file, "", err)
	first, rest, _ := strings.Cut(err.Error(), "\n")
	log := r.Log
	if rest != "" {
		log = log.With("more_problems", 1+strings.Count(rest, "\n"))
	}
	log.Error("configuration not reloaded, the one before stays in force", "err", first)
}

// Reload writes to the audit log that the configuration was read again.
func (r Recorder) Reload(file, why string, err error) {
	e := audit.Entry{Who: audit.Who{Via: audit.ViaConfig}, Action: "reload", Object: file, Result: audit.Done, Reason: why}
	if err != nil {
		e.Result, e.Reason = audit.Failed, err.Error()
	}
	r.Audit.Append(e)
}

// Changes writes each change of a link, with what and why, into the link's log.
func (r Recorder) Changes(log *slog.Logger, list []decide.PlannedChange) {
	for _, c := range list {
		if c.Workload == "" {
			log.Info(c.Text, "why", c.Why)
		} else {
			log.Info(c.Text, "workload", c.Workload, "why", c.Why)
		}
	}
}

// states writes down what the plans do not show: which workloads are refused something, and
// which no longer are.
func (r Recorder) states(before, after decide.Decision, why decide.Reasons) {
	notes, warned := map[string]string{}, map[string][]string{}
	for _, v := range slices.Concat(before.Rulings, before.Groups) {
		notes[v.Key], warned[v.Key] = v.Note, v.OwnWarnings()
	}
	for _, v := range slices.Concat(after.Rulings, after.Groups) {
		switch was := notes[v.Key]; {
		case v.Note == was:
		case v.Note != "":
			r.Log.Warn("workload does not have all that was asked for it", "workload", v.Name, "state", v.State, "note", v.Note, "why", why.Of(v.Key))
		default:
			r.Log.Info("workload has all that was asked for it", "workload", v.Name, "state", v.State, "why", why.Of(v.Key))
		}
		for _, warning := range v.OwnWarnings() {
			if !slices.Contains(warned[v.Key], warning) {
				r.Log.Warn("rules overlap", "workload", v.Name, "note", warning, "why", why.Of(v.Key))
			}
		}
	}
}

// Overlaps writes down which rules overlap in a configuration that was read.
func (r Recorder) Overlaps(c config.Config) {
	for _, warning := range c.Warnings {
		r.Log.Warn("rules overlap", "note", warning)
	}
}

// linkGaps logs the links' settings that are not held, and those that are held
// again.
func (r Recorder) linkGaps(before, after decide.Decision) {
	for _, name := range slices.Sorted(maps.Keys(after.LinkGaps)) {
		for _, g := range after.LinkGaps[name] {
			if !slices.Contains(before.LinkGaps[name], g) {
				r.Log.Warn("link does not have all that was asked for it", "link", name, "setting", g.What(), "note", g.Reason, "accepted", g.Accepted)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.LinkGaps)) {
		if _, there := after.Plans[name]; there && len(after.LinkGaps[name]) == 0 && len(before.LinkGaps[name]) > 0 {
			r.Log.Info("link has all that was asked for it", "link", name)
		}
	}
}
