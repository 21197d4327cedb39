// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"

	"weir/internal/agent/decide"
	"weir/internal/audit"
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
	for _, d := range decide.Differences(before, after) {
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
	a.opts.Audit.Append(entries...)
}

// viaOf says by which way a difference came about, "" if nobody made it: a workload appears or
// goes with the policy that all have.
func viaOf(d decide.Difference, why decide.Reasons) string {
	switch {
	case why.General == whyConfig:
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
