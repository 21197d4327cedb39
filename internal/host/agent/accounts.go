// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"time"

	"weir/internal/api"
	"weir/internal/core/policy"
	"weir/internal/core/policy/quota"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/ledger"
	"weir/internal/host/agent/owners"
	"weir/internal/host/dataplane"
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
func (a accounts) count(l *link, snapshot dataplane.LinkCounters) {
	r := ledger.Reading{Link: l.config.Place(), Direction: cmp.Or(l.config.Direction, policy.Egress), Epoch: a.boot + " " + l.backend.Name(),
		Classes: owners.Classes(snapshot, a.agent.decided)}
	now := time.Now()
	a.ledger.Take(now, r)
	a.ledger.WriteDue(now)
}

// settle counts what the kernel has counted until now, before a decision comes into force by which
// a class belongs to another workload, or to none. What those have who go is on the disk then.
func (a accounts) settle(next decide.Decision) {
	if owners.Changed(a.agent.decided, next) {
		a.agent.links.account()
		a.ledger.Settle(time.Now())
	}
}

// rename has what was counted until now go with workloads that have other keys.
func (a accounts) rename(keys map[string]ledger.Owner) {
	if len(keys) > 0 {
		a.agent.links.account()
		a.ledger.Rename(time.Now(), keys)
	}
}

func (ls links) account() {
	for _, l := range ls {
		l.account()
	}
}

// account counts what the kernel has counted until now, before something that it counts with may
// go. There may be nothing of Weir's yet.
func (l *link) account() {
	if l.backend == nil {
		return
	}
	if snapshot, err := l.backend.Counters(); err == nil && !snapshot.At.IsZero() {
		l.count(l, snapshot)
	}
}

// Usage implements api.Agent. Files are read beside the agent's goroutine.
func (a accounts) Usage(ctx context.Context, q api.UsageQuery) (api.Usage, error) {
	var history ledger.History
	var counted func(api.UsageRow) bool
	var zone *time.Location
	if err := a.agent.ask(ctx, func(now moment) error {
		history, counted, zone = a.ledger.History(), decide.Receives(now.Decision), now.World.Now.Location()
		return nil
	}); err != nil {
		return api.Usage{}, err
	}
	u, err := history.Usage(ctx, q, zone)
	for i, r := range u.Rows {
		u.Rows[i].ReceivedUncounted = r.ReceivedBytes == 0 && !counted(r)
	}
	return u, err
}

// standings returns how far those have come to whom a decision gives a quota.
func (a accounts) standings(now time.Time, d decide.Decision) map[string]quota.Standing {
	return a.ledger.Follow(now, owners.Quotas(d))
}

// limit decides anew where a quota is reached, or where its period has begun anew. It returns
// when it is to be called again at the latest.
func (a accounts) limit(ctx context.Context, now time.Time) time.Duration {
	now = a.agent.opts.Wall(now)
	standings := a.standings(now, a.agent.decided)
	if ledger.SameReached(standings, a.agent.decided.World.Quotas) {
		a.agent.decided.World.Quotas = standings
	} else {
		next := a.agent.decided.World.Clone()
		next.Now, next.Quotas = now, standings
		a.agent.commit(ctx, decide.Decide(next), decide.Reasons{General: "a quota was reached or began anew, see quota"})
	}
	var capacity uint64
	for _, l := range a.agent.links {
		capacity += uint64(l.config.Capacity())
	}
	return ledger.Again(standings, capacity)
}
