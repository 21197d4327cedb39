// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/workload"
	"weir/internal/host/agent/away"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/decide/reports"
	"weir/internal/host/agent/memory"
	"weir/internal/host/discover"
)

// restartSource is how long a source that ended is left alone.
const restartSource = 5 * time.Second

// Attacher makes workloads of namespaces, devices and cgroups. The sources among
// Options.Sources report them from then on.
type Attacher interface {
	// Attach refuses what cannot be; wait allows what does not exist yet.
	Attach(a config.Attachment, wait bool) error
	// Look says of which devices and cgroups Attach would make a workload now.
	Look(a config.Attachment) (devices []discover.Device, cgroups []string)
	Detach(a config.Attachment) error
}

// noAttacher refuses all attachments, for an agent without a source that makes them.
type noAttacher struct{}

func (noAttacher) Attach(config.Attachment, bool) error {
	return errors.New("this agent has no source for namespaces, devices and cgroups")
}
func (noAttacher) Look(config.Attachment) ([]discover.Device, []string) { return nil, nil }
func (noAttacher) Detach(config.Attachment) error                       { return nil }

// finder knows which workloads there are: those that the sources see, those that were
// attached and that no source has reported yet, and those that are kept for a while. It
// belongs to the agent's goroutine.
type finder struct {
	log      *slog.Logger
	attacher Attacher
	trusting bool // there is no attacher, so all that the sources report is expected
	sources  []*source
	pending  map[string]*pending // by key
	away     *away.List
}

// source is a running discover.Source with the list that it reported last.
type source struct {
	discover.Source
	seen []discover.Workload
	err  error // why it ended
}

// pending is a workload that was attached and that its source has not reported.
type pending struct {
	workload discover.Workload
	reported chan struct{}
}

// newFinder returns a finder that believes what an earlier agent kept until the sources have
// reported. attacher may be nil.
func newFinder(gone *away.List, log *slog.Logger, attacher Attacher, sources []discover.Source, seen map[string][]memory.Workload, exists func(name string, ifindex int) bool) *finder {
	f := &finder{away: gone, log: log, attacher: attacher, pending: map[string]*pending{}}
	if attacher == nil {
		f.attacher, f.trusting = noAttacher{}, true
	}
	for _, src := range sources {
		s := &source{Source: src}
		for _, k := range seen[src.Name()] {
			s.seen = append(s.seen, k.Found(exists))
		}
		if holder, ok := src.(interface{ Recall([]discover.Workload) }); ok {
			holder.Recall(slices.Clone(s.seen))
		}
		f.sources = append(f.sources, s)
	}
	return f
}

// resume attaches what the configuration asks for, and again what weir attach made for an
// earlier agent, which may fail: it returns the attachments that exist again.
func (f *finder) resume(configured, made []config.Attachment) (again []config.Attachment, err error) {
	for _, at := range configured {
		if err := f.attacher.Attach(at, true); err != nil {
			return nil, fmt.Errorf("attach %s: %w", at, err)
		}
	}
	for _, at := range made {
		if err := f.attacher.Attach(at, true); err != nil {
			f.log.Warn("workload cannot be attached again", "workload", at.String(), "err", err)
			continue
		}
		again = append(again, at)
	}
	return again, nil
}

// watch runs a source until ctx ends, and starts it again should it end. report takes its
// lists; in has a function run in the agent's goroutine.
func (f *finder) watch(ctx context.Context, s *source, in func(func()), report func([]discover.Workload)) {
	for ctx.Err() == nil {
		err := s.Run(ctx, func(list []discover.Workload) {
			list = slices.Clone(list)
			in(func() { report(list) })
		})
		if ctx.Err() != nil {
			return
		}
		f.log.Warn("source of workloads has ended, starting it again", "source", s.Name(), "err", err)
		in(func() { s.err = cmp.Or(err, errors.New("ended without a reason")) })
		select {
		case <-ctx.Done():
		case <-time.After(restartSource):
		}
	}
}

// report takes a source's list, and returns the world with it, the changes, and which keys are
// others now.
func (f *finder) report(s *source, list []discover.Workload, w decide.World, now time.Time) (decide.World, decide.Reasons, map[string]string) {
	before, list := s.seen, reports.Expected(s.seen, list, func(found discover.Workload) bool { return f.expected(found, w) })
	s.seen, s.err = list, nil
	for _, found := range list {
		if p, ok := f.pending[found.Key]; ok {
			close(p.reported)
			delete(f.pending, found.Key)
		}
	}
	next, moved, has := w.Clone(), reports.Renamed(before, list), reports.Keys(list)
	next.Rename(moved)
	f.away.Retain(s.Name(), before, list, moved, w.HoldsMin, now)
	next.ForgetPods(slices.DeleteFunc(slices.Clone(before), func(gone discover.Workload) bool { return has[gone.Key] || f.away.Has(gone.Key) }))
	next.Found = f.found()
	return next, decide.Reasons{General: s.Name() + " reported", ByKey: reports.WhatIsNew(s.Name(), before, list)}, moved
}

// expected leaves out what a source may still report after it was detached, or
// when it was attached by a dry run only.
func (f *finder) expected(found discover.Workload, w decide.World) bool {
	return f.trusting || found.Ended || found.Kind == workload.KindDocker || found.Kind == workload.KindOwn || f.pending[found.Key] != nil ||
		w.Attaches(found)
}

// found returns the workloads that sources see, that are pending and that are away, sorted by key.
// Where two see the same key, the earlier source is believed.
func (f *finder) found() []discover.Workload {
	byKey := map[string]discover.Workload{}
	for _, s := range f.sources {
		for _, w := range s.seen {
			if _, taken := byKey[w.Key]; !taken && w.Key != plan.HostKey {
				byKey[w.Key] = w
			}
		}
	}
	for key, p := range f.pending {
		if _, taken := byKey[key]; !taken {
			byKey[key] = p.workload
		}
	}
	for key, absent := range f.away.Found() {
		if _, taken := byKey[key]; !taken {
			byKey[key] = absent
		}
	}
	return slices.SortedFunc(maps.Values(byKey), func(x, y discover.Workload) int { return cmp.Compare(x.Key, y.Key) })
}

// seen returns what each source saw last, by its name.
func (f *finder) seen() map[string][]discover.Workload {
	seen := make(map[string][]discover.Workload, len(f.sources))
	for _, s := range f.sources {
		seen[s.Name()] = append(seen[s.Name()], s.seen...)
	}
	for source, ended := range f.away.Ended() {
		seen[source] = append(seen[source], ended...)
	}
	return seen
}

// attach asks the source for an attachment that no source has reported yet, with the devices
// that it finds now. The source checks whether the thing exists.
func (f *finder) attach(at config.Attachment, devices []discover.Device) (*pending, error) {
	if err := f.attacher.Attach(at, false); err != nil {
		return nil, api.Mistake(err)
	}
	p := &pending{workload: decide.Attached(at, devices), reported: make(chan struct{})}
	f.pending[p.workload.Key] = p
	return p, nil
}

// detach ends an attachment. What the sources saw of its workload is forgotten, or, if something of
// it may last, has ended.
func (f *finder) detach(at config.Attachment) (lasts bool, err error) {
	key := decide.WorkloadOf(at).Key
	unseen, pending := f.pending[key]
	delete(f.pending, key)
	for _, s := range f.sources {
		s.seen = slices.DeleteFunc(s.seen, func(w discover.Workload) bool { return w.Key == key && !reports.Outlived(w) })
		s.seen = reports.WithEnd(s.seen, key)
		lasts = lasts || reports.Keys(s.seen)[key]
	}
	if !lasts && pending && len(unseen.workload.Devices) > 0 && reports.Outlived(unseen.workload) {
		f.away.Keep(unseen.workload, time.Now())
	}
	return lasts, f.attacher.Detach(at)
}

// reattach makes the attachments of the configuration those of next. If one cannot be made,
// all is as before. w is the world with the configuration before.
func (f *finder) reattach(w decide.World, next []config.Attachment) error {
	var undo []func()
	before := w.Config.Attach
	gone := func(at config.Attachment) { _ = f.attacher.Detach(at) }
	for _, at := range before {
		if !slices.Contains(next, at) {
			gone(at)
			undo = append(undo, func() { _ = f.attacher.Attach(at, true) })
		}
	}
	for _, at := range next {
		if slices.Contains(before, at) {
			continue
		}
		err := f.attacher.Attach(at, true)
		if err == nil && w.NameTaken(at) {
			gone(at)
			err = errors.New("the name is taken by another workload; choose another")
		}
		if err != nil {
			slices.Reverse(undo)
			for _, f := range undo {
				f()
			}
			return fmt.Errorf("%s: attach %s: %w", w.Config.Path, at, err)
		}
		undo = append(undo, func() { gone(at) })
	}
	return nil
}

// view returns the sources as the API shows them.
func (f *finder) view() []api.Source {
	list := []api.Source{}
	for _, s := range f.sources {
		list = append(list, s.view())
	}
	return list
}

func (s *source) view() api.Source {
	view := api.Source{Name: s.Name(), State: workload.SourceOK}
	if own, ok := s.Source.(interface {
		Status() (state workload.SourceState, note string)
	}); ok {
		view.State, view.Note = own.Status()
	}
	if s.err != nil {
		view.State, view.Note = workload.SourceUnavailable, s.err.Error()
	}
	return view
}
