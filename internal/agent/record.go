// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"weir/internal/agent/decide"
	"weir/internal/api"
	"weir/internal/audit"
	"weir/internal/workload"
)

// whyConfig is the reason of what a configuration file changes.
const whyConfig = "configuration changed"

// record writes to the audit log whose policy a commit changes. The change that a
// request asks for goes into the request's line; all others have lines of their own.
// A workload that appears has one if its labels ask for something.
func (a *Agent) record(ctx context.Context, before, after decide.Decision, why decide.Reasons) {
	if a.opts.Audit == nil && !audit.Under(ctx) {
		return
	}
	var entries []audit.Entry
	for _, pair := range pairs(before, after) {
		was, is := fieldsOf(pair.was), fieldsOf(pair.is)
		onlyDifferent(was, is)
		if len(was)+len(is) == 0 {
			continue
		}
		reason, asked := why.ByKey[pair.key]
		if asked && audit.Note(ctx, pair.name(), orNil(was), orNil(is)) {
			continue
		}
		if reason == "" {
			reason = why.General
		}
		via := pair.via(why)
		if via == "" {
			continue
		}
		entries = append(entries, audit.Entry{Who: audit.Who{Via: via}, Action: "policy", Object: pair.name(),
			Before: orNil(was), After: orNil(is), Result: audit.Done, Reason: reason})
	}
	a.opts.Audit.Append(entries...)
}

// pair is one workload or group before and after a commit; nil where it does not exist.
type pair struct {
	key     string
	was, is *decide.Verdict
}

// pairs returns the pairs of all workloads and groups, sorted by key.
func pairs(before, after decide.Decision) []pair {
	all := map[string]pair{}
	for i, d := range []decide.Decision{before, after} {
		for _, list := range [][]decide.Verdict{d.Verdicts, d.Groups} {
			for j := range list {
				p := all[list[j].Key]
				p.key = list[j].Key
				if i == 0 {
					p.was = &list[j]
				} else {
					p.is = &list[j]
				}
				all[p.key] = p
			}
		}
	}
	var sorted []pair
	for _, key := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, all[key])
	}
	return sorted
}

func (p pair) name() string {
	if p.is != nil {
		return p.is.Name
	}
	return p.was.Name
}

// via says by which way the change came, "" if it is none that anybody made: a
// workload that appears or goes with the policy that all have.
func (p pair) via(why decide.Reasons) string {
	switch {
	case why.General == whyConfig:
		return audit.ViaConfig
	case p.is != nil && p.is.Labelled():
		return audit.ViaLabel
	case p.is == nil || p.was == nil:
		return ""
	case p.was.Labelled():
		return audit.ViaLabel
	}
	return audit.ViaAgent
}

// fieldsOf are the fields of a verdict's policy that say something, as the API has
// them. The workload that stands for Weir's own traffic has none.
func fieldsOf(v *decide.Verdict) map[string]any {
	fields := map[string]any{}
	if v == nil || v.Kind == workload.KindOwn {
		return fields
	}
	text, err := json.Marshal(api.PolicyOf(v.Policy))
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return map[string]any{"unreadable": err.Error()}
	}
	maps.DeleteFunc(fields, func(_ string, value any) bool { return value == "" || value == nil })
	return fields
}

// onlyDifferent removes what is the same in both, and puts "none" for what only one
// of two that are there has.
func onlyDifferent(was, is map[string]any) {
	appears, goes := len(was) == 0, len(is) == 0
	for _, field := range slices.Collect(maps.Keys(was)) {
		switch value, ok := is[field]; {
		case ok && reflect.DeepEqual(value, was[field]):
			delete(was, field)
			delete(is, field)
		case !ok && !goes:
			is[field] = "none"
		}
	}
	for field := range is {
		if _, ok := was[field]; !ok && !appears {
			was[field] = "none"
		}
	}
}

// orNil is fields, or nothing.
func orNil(fields map[string]any) any {
	if len(fields) == 0 {
		return nil
	}
	return fields
}

// recordLink writes to the audit log that a link was taken over or given back.
func (a *Agent) recordLink(action string, l *link, why string) {
	a.opts.Audit.Append(audit.Entry{Who: audit.Who{Via: audit.ViaAgent}, Action: action, Object: l.config.Name(), Result: audit.Done, Reason: why})
}

// recordReload writes to the audit log that the configuration was read again.
func (a *Agent) recordReload(file, why string, err error) {
	e := audit.Entry{Who: audit.Who{Via: audit.ViaConfig}, Action: "reload", Object: file, Result: audit.Done, Reason: why}
	if err != nil {
		e.Result, e.Reason = audit.Failed, err.Error()
	}
	a.opts.Audit.Append(e)
}

// Audit is the log of what changes policies; nil if there is none.
func (a *Agent) Audit() *audit.Log { return a.opts.Audit }
