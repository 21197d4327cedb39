// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/base/audit"
	"weir/internal/config"
	"weir/internal/core/event"
	"weir/internal/host/agent/decide/shadow"
	"weir/internal/host/agent/usage"
)

// ask has f look at the present moment, in the agent's goroutine.
func (a *Agent) ask(ctx context.Context, f func(now moment) error) error {
	var err error
	down := a.do(ctx, func() { err = f(moment{a.decided, a.links}) })
	return cmp.Or(down, err)
}

// Status implements api.Agent.
func (a *Agent) Status(ctx context.Context) (s api.Status, err error) {
	err = a.ask(ctx, func(now moment) error {
		s = api.Status{
			Version:      a.opts.Version,
			Started:      a.started.UTC(),
			Config:       now.World.Config.Path,
			ConfigError:  a.file.Wrong,
			RestartDue:   slices.Concat(a.file.Late, a.opts.Late()),
			SetAtRunTime: shadow.Names(now.Decision),
			Unwritable:   a.opts.Unwritable(),
			Reloads:      a.file.Reloads,
			Links:        now.linkViews(),
			Groups:       now.groups(),
			Sources:      now.sources(a),
			Refused:      now.Refused(),
			NotHeld:      now.NotHeld(),
			Warnings:     now.Warnings(),
			Events:       a.teller.Status(),
			Problems:     event.Problems(now.sight(a, time.Now())),
		}
		return nil
	})
	return s, err
}

// Workloads implements api.Agent.
func (a *Agent) Workloads(ctx context.Context) (list []api.Workload, err error) {
	err = a.ask(ctx, func(now moment) error { list = now.workloads(false); return nil })
	return list, err
}

// Workload implements api.Agent.
func (a *Agent) Workload(ctx context.Context, name string) (w api.Workload, err error) {
	err = a.ask(ctx, func(now moment) error {
		v, err := now.Resolve(name)
		if err == nil {
			w = now.workload(v, true)
		}
		return err
	})
	return w, err
}

// Explain implements api.Agent.
func (a *Agent) Explain(ctx context.Context, name string) (e api.Explanation, err error) {
	err = a.ask(ctx, func(now moment) error {
		v, err := now.Resolve(name)
		if err == nil {
			e = now.explain(v)
		}
		return err
	})
	return e, err
}

// Classify implements api.Agent.
func (a *Agent) Classify(ctx context.Context, name string, p api.Packet) (place api.Placement, err error) {
	err = a.ask(ctx, func(now moment) (err error) {
		if place, err = now.Classify(name, p); err == nil && a.opts.Networks != nil {
			err = usage.FindZones(&place, p.Dst, now.World.Config.Links, a.opts.Networks)
		}
		return err
	})
	return place, err
}

// Groups implements api.Agent.
func (a *Agent) Groups(ctx context.Context) (list []api.Group, err error) {
	err = a.ask(ctx, func(now moment) error { list = now.groups(); return nil })
	return list, err
}

// Group implements api.Agent.
func (a *Agent) Group(ctx context.Context, name string) (g api.Group, err error) {
	err = a.ask(ctx, func(now moment) error {
		v, err := now.ResolveGroup(name)
		if err == nil {
			g = now.group(v)
		}
		return err
	})
	return g, err
}

// ExplainGroup implements api.Agent.
func (a *Agent) ExplainGroup(ctx context.Context, name string) (e api.Explanation, err error) {
	err = a.ask(ctx, func(now moment) error {
		v, err := now.ResolveGroup(name)
		if err == nil {
			e = now.explainGroup(v)
		}
		return err
	})
	return e, err
}

// Events implements api.Agent.
func (a *Agent) Events(ctx context.Context, q api.EventQuery) (events api.Events, err error) {
	err = a.ask(ctx, func(moment) error { events = a.teller.Events(q); return nil })
	return events, err
}

// Subscribe implements api.Agent. The first sample comes at once and carries
// the last minute's rates.
func (a *Agent) Subscribe(ctx context.Context) <-chan api.Sample {
	var reader chan api.Sample
	joined := a.ask(ctx, func(now moment) error {
		reader = a.readers.Join(now.sample(now.sight(a, time.Now()), true))
		return nil
	})
	if joined != nil {
		reader = make(chan api.Sample)
		close(reader)
		return reader
	}
	context.AfterFunc(ctx, func() {
		// Where the agent has ended, it has closed the channel itself.
		_ = a.tell(context.WithoutCancel(ctx), func() { a.readers.Remove(reader) })
	})
	return reader
}

// Config returns the configuration that the agent began with: where its socket is,
// and its metrics.
func (a *Agent) Config() config.Config { return a.opts.Config }

// Audit returns the log of what changes policies; nil if there is none.
func (a *Agent) Audit() *audit.Log { return a.opts.Audit }
