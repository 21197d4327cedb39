// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"slices"
	"time"

	"weir/internal/agent/ledger"
	"weir/internal/api"
	"weir/internal/dataplane"
	"weir/internal/plan"
	"weir/internal/policy"
)

// accounts keeps what each workload has sent and received. It belongs to the agent's goroutine.
type accounts struct {
	agent  *Agent
	ledger *ledger.Ledger
	boot   string // of the host
}

// openAccounts reads what the agent's predecessor kept in a folder.
func openAccounts(a *Agent, folder string) (accounts, error) {
	l, err := ledger.Open(folder, a.log)
	return accounts{a, l, ledger.Boot()}, err
}

// count adds a reading of a link's counters, whose classes belong to whom the present decision
// says, or belonged to whom the last one said.
func (a accounts) count(l *link, snapshot dataplane.Snapshot) {
	r := ledger.Reading{Link: l.config.Device, Direction: cmp.Or(l.config.Direction, policy.Egress), Epoch: a.boot + " " + l.backend.Name()}
	owners := make(map[plan.ClassID]ledger.Owner, len(a.agent.decided.Verdicts))
	for _, v := range a.agent.decided.Verdicts {
		if v.Steered {
			owners[v.Class] = ledger.Owner{Key: v.Key, Name: v.Name, Group: v.Policy.Group}
		}
	}
	for id, c := range snapshot.Classes {
		r.Classes = append(r.Classes, ledger.Class{ID: id, Owner: owners[id], Bytes: c.SentBytes})
	}
	a.ledger.Take(time.Now(), r)
}

// account counts what the kernel has counted until now, before something that it counts with may
// go. There may be nothing of Weir's yet.
func (l *link) account() {
	if snapshot, err := l.backend.Counters(); err == nil && !snapshot.At.IsZero() {
		l.count(l, snapshot)
	}
}

// loses reports whether setting the link takes counters away.
func (l *link) loses() bool {
	return l.inForce.Link != l.want.Link || slices.ContainsFunc(l.inForce.Classes, func(c plan.Class) bool {
		_, stays := l.want.Class(c.ID)
		return !stays
	})
}

// Usage implements api.Agent. Files are read beside the agent's goroutine.
func (a accounts) Usage(ctx context.Context, q api.UsageQuery) (api.Usage, error) {
	var history ledger.History
	if err := a.agent.ask(ctx, func(moment) error { history = a.ledger.History(); return nil }); err != nil {
		return api.Usage{}, err
	}
	return history.Usage(q, time.Local)
}
