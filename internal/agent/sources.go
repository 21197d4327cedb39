// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

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
	next, moved := a.world.clone(), renamed(before, list)
	for from, to := range moved {
		next.rename(from, to)
	}
	a.bear(before, list, moved, time.Now())
	next.found = a.merged()
	why := reasons{general: s.Name() + " reported", byKey: compare(s.Name(), before, list)}
	a.commit(ctx, rule(next, a.attached), why)
}

// expected leaves out what a source may still report after it was detached, or
// when it was attached by a dry run only.
func (a *Agent) expected(w discover.Workload) bool {
	if a.opts.Attach == nil || w.Kind == kindDocker || w.Kind == workload.KindOwn || a.pending[w.Key] != nil {
		return true
	}
	meant := func(at config.Attachment) bool { return means(at, w) }
	return slices.ContainsFunc(a.attached, meant) || slices.ContainsFunc(a.world.config.Attach, meant)
}

// means reports whether an attachment is w's, or, without a name, may be.
func means(at config.Attachment, w discover.Workload) bool {
	as := asWorkload(at)
	return as.Key == w.Key || at.Name == "" && as.Kind == w.Kind
}

// pending is a workload that was attached and that its source has not reported.
type pending struct {
	workload discover.Workload
	reported chan struct{}
}

// asWorkload is what is known of an attachment before its source has looked; of one
// without a name, only the kind of the workloads.
func asWorkload(a config.Attachment) discover.Workload {
	switch {
	case a.Device != "" && a.Name == "":
		return discover.Workload{Kind: workload.KindVM}
	case a.Device != "":
		return named(workload.KindDevice, a.Name)
	case a.Unit != "" && a.Name == "":
		return discover.Workload{Kind: workload.KindUnit}
	case a.Unit != "":
		return named(workload.KindUnit, a.Name)
	case a.Cgroup != "":
		return named(workload.KindCgroup, a.Name)
	}
	return named(workload.KindNetns, a.Name)
}

func named(kind, name string) discover.Workload {
	return discover.Workload{Key: workload.Key(kind, name), Name: name, Kind: kind}
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

// renamed finds workloads that the engine considers the same though their keys
// differ, from the old key to the new.
func renamed(before, after []discover.Workload) map[string]string {
	had, has := keysOf(before), keysOf(after)
	vanished := map[string]string{} // key by id
	for _, w := range before {
		if w.ID != "" && !has[w.Key] {
			vanished[w.ID] = w.Key
		}
	}
	moved := map[string]string{}
	for _, w := range after {
		if from, ok := vanished[w.ID]; ok && !had[w.Key] {
			moved[from] = w.Key
		}
	}
	return moved
}

func keysOf(list []discover.Workload) map[string]bool {
	keys := make(map[string]bool, len(list))
	for _, w := range list {
		keys[w.Key] = true
	}
	return keys
}

// rename moves everything that was remembered under one key to another.
func (w *world) rename(from, to string) {
	if layer, ok := w.set[from]; ok {
		w.set[to] = layer
		delete(w.set, from)
	}
	if fields, ok := w.accepted[from]; ok {
		w.accepted[to] = fields
		delete(w.accepted, from)
	}
	if id, ok := w.number[from]; ok {
		w.number[to] = id
		delete(w.number, from)
	}
	for device, grants := range w.grants {
		grants = slices.Clone(grants)
		for i := range grants {
			if grants[i].Key == from {
				grants[i].Key = to
			}
		}
		w.grants[device] = grants
	}
}

// compare says for each workload what is new about it.
func compare(source string, before, after []discover.Workload) map[string]string {
	old := map[string]discover.Workload{}
	for _, w := range before {
		old[w.Key] = w
	}
	why := map[string]string{}
	for _, w := range after {
		was, known := old[w.Key]
		delete(old, w.Key)
		switch {
		case !known:
			why[w.Key] = source + ": " + w.Name + " appeared"
		case !reflect.DeepEqual(was.Devices, w.Devices):
			why[w.Key] = source + ": devices of " + w.Name + " changed"
		case !slices.Equal(was.Cgroups, w.Cgroups):
			why[w.Key] = source + ": cgroups of " + w.Name + " changed"
		case !maps.Equal(ownLabels(was.Labels), ownLabels(w.Labels)), !maps.Equal(was.ImageLabels, w.ImageLabels):
			why[w.Key] = source + ": labels of " + w.Name + " changed"
		}
	}
	for key, w := range old {
		why[key] = source + ": " + w.Name + " is gone"
	}
	return why
}
