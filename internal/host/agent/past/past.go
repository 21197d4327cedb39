// SPDX-License-Identifier: Apache-2.0

// Package past carries what an agent decides to the one that follows the paths of traffic, and
// what goes past the links back to the agent.
//
// Example: vm is attached by a tap behind a bridge of its own. After a decision
//
//	past.Ask(watcher, d)
//
// has the watcher look at vm's tap, and Run reports a paths.Result, which becomes World.Paths.
// What follows from it is package decide's.
package past

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"weir/internal/api"
	"weir/internal/core/paths"
	"weir/internal/core/policy"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide"
)

// Watcher follows by which devices the traffic of workloads goes (package look).
type Watcher interface {
	// Ask says what to look at from now on.
	Ask(links []paths.Link, workloads []paths.Workload)
	// Run reports what is found, and when it differs, until ctx ends.
	Run(ctx context.Context, report func(paths.Result)) error
}

// Ask has a watcher, if there is one, look at what a decision is about.
func Ask(w Watcher, d decide.Decision) {
	if w != nil {
		w.Ask(Links(d.World), Workloads(d))
	}
}

// Follow carries what a watcher, if there is one, finds to take, until ctx ends.
func Follow(ctx context.Context, log *slog.Logger, w Watcher, take func(paths.Result)) {
	if w == nil {
		return
	}
	if err := w.Run(ctx, take); ctx.Err() == nil {
		log.Error("the paths of workloads are followed no longer; start the agent again", "err", err)
	}
}

// In returns a world with a result, and logs what goes past the links and did not before.
func In(w decide.World, r paths.Result, log *slog.Logger) decide.World {
	for _, key := range slices.Sorted(maps.Keys(r.Unsteered)) {
		for _, f := range r.Unsteered[key] {
			if !slices.Contains(w.Paths.Unsteered[key], f) {
				log.Warn("traffic of a workload is not steered", "workload", f.Name, "why", f.Text(), "remedy", f.Remedy)
			}
		}
	}
	next := w.Clone()
	next.Paths = r
	return next
}

// Links returns the links as package paths looks at them.
func Links(w decide.World) (list []paths.Link) {
	at := map[string]int{}
	for _, l := range w.Links() {
		if l.Zone != "" {
			continue
		}
		i, ok := at[l.Device]
		if !ok {
			i, at[l.Device] = len(list), len(list)
			list = append(list, paths.Link{Device: l.Device})
		}
		if l.Direction == policy.Ingress {
			list[i].Ingress, list[i].Local = true, l.IngressLocal
		} else {
			list[i].Egress = true
		}
	}
	return list
}

// Workloads returns the workloads with devices as package paths looks at them.
func Workloads(d decide.Decision) (list []paths.Workload) {
	for _, v := range d.Rulings {
		if len(v.Devices) == 0 || !v.Steered {
			continue
		}
		w := paths.Workload{Key: v.Key, Name: v.Name, Sockets: len(v.Cgroups)+len(v.Sockets) > 0}
		w.Whole = v.Kind == workload.KindDocker || v.Kind == workload.KindNetns || v.Kind == workload.KindPod
		for _, device := range v.Devices {
			w.Devices = append(w.Devices, device.Ifindex)
		}
		list = append(list, w)
	}
	return list
}

// Views returns what goes past the links as the API shows it, nil if nothing does.
func Views(found []paths.UnsteeredTraffic) (list []api.NotSteered) {
	for _, f := range found {
		list = append(list, api.NotSteered{Link: f.Link, Part: f.Part, Reason: f.Reason, Remedy: f.Remedy})
	}
	return list
}
