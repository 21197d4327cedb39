// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"weir/internal/agent/decide"
	"weir/internal/config"
	"weir/internal/discover"
	"weir/internal/plan"
	"weir/internal/workload"
)

// restartSource is how long a source that ended is left alone.
const restartSource = 5 * time.Second

// source is a running discover.Source and what it saw last. It belongs to the
// agent's goroutine.
type source struct {
	discover.Source
	seen []discover.Workload
	err  error // why it ended
}

// Attacher makes workloads of namespaces, devices and cgroups. The sources among
// Options.Sources report them from then on.
type Attacher interface {
	// Attach refuses what cannot be; wait allows what does not exist yet.
	Attach(a config.Attachment, wait bool) error
	// Look says of which devices and cgroups Attach would make a workload now.
	Look(a config.Attachment) (devices []discover.Device, cgroups []string)
	Detach(a config.Attachment) error
}

// watch carries a source's reports into the loop, and starts it again should it
// end.
func (a *Agent) watch(ctx context.Context, s *source) {
	for ctx.Err() == nil {
		err := s.Run(ctx, func(list []discover.Workload) {
			list = slices.Clone(list)
			_ = a.tell(ctx, func() { a.report(ctx, s, list) }) // fails only when the agent ends
		})
		if ctx.Err() != nil {
			return
		}
		a.log.Warn("source of workloads has ended, starting it again", "source", s.Name(), "err", err)
		_ = a.tell(ctx, func() { s.err = cmp.Or(err, errors.New("ended without a reason")) })
		select {
		case <-ctx.Done():
		case <-time.After(restartSource):
		}
	}
}

// report takes in what a source sees.
func (a *Agent) report(ctx context.Context, s *source, list []discover.Workload) {
	list = slices.DeleteFunc(list, func(w discover.Workload) bool { return !a.expected(w) })
	before := s.seen
	s.seen, s.err = list, nil
	for _, w := range list {
		if p, ok := a.pending[w.Key]; ok {
			close(p.reported)
			delete(a.pending, w.Key)
		}
	}
	next, moved := a.decided.World.Clone(), decide.Renamed(before, list)
	for from, to := range moved {
		next.Rename(from, to)
	}
	a.bear(before, list, moved, time.Now())
	next.Found = a.merged()
	why := decide.Reasons{General: s.Name() + " reported", ByKey: decide.WhatIsNew(s.Name(), before, list)}
	a.commit(ctx, decide.Decide(next), why)
}

// expected leaves out what a source may still report after it was detached, or
// when it was attached by a dry run only.
func (a *Agent) expected(w discover.Workload) bool {
	return a.opts.Attach == nil || w.Kind == workload.KindDocker || w.Kind == workload.KindOwn || a.pending[w.Key] != nil ||
		a.decided.World.Attaches(w)
}

// pending is a workload that was attached and that its source has not reported.
type pending struct {
	workload discover.Workload
	reported chan struct{}
}

// merged is what all sources see, what is pending and what is away, by key. Where two see the
// same key, the earlier source is believed.
func (a *Agent) merged() []discover.Workload {
	byKey := map[string]discover.Workload{}
	for _, s := range a.sources {
		for _, w := range s.seen {
			if _, taken := byKey[w.Key]; !taken && w.Key != plan.HostKey {
				byKey[w.Key] = w
			}
		}
	}
	for key, p := range a.pending {
		if _, taken := byKey[key]; !taken {
			byKey[key] = p.workload
		}
	}
	for key, absent := range a.away {
		if _, taken := byKey[key]; !taken {
			byKey[key] = absent.Workload
		}
	}
	return slices.SortedFunc(maps.Values(byKey), func(x, y discover.Workload) int { return cmp.Compare(x.Key, y.Key) })
}
