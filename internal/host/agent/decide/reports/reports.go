// SPDX-License-Identifier: Apache-2.0

// Package reports says what differs between two reports of a source of workloads: which workloads
// the engine considers the same though their names differ, and what changed, for a log; and which
// workloads are there after their end. It consists of functions of values.
package reports

import (
	"maps"
	"reflect"
	"slices"

	"weir/internal/core/workload"
	"weir/internal/host/agent/decide/labels"
	"weir/internal/host/discover"
)

// Renamed finds the workloads that the engine considers the same though their keys differ
// in two reports of a source, and maps the old key to the new one. Two may have exchanged theirs.
// A key whose workload has gone stays with what it has: the next one is made in its place.
func Renamed(before, after []discover.Workload) map[string]string {
	key, has, had := map[string]string{}, Keys(after), map[string]string{} // key by id before, id by key before
	for _, w := range before {
		key[w.ID], had[w.Key] = w.Key, w.ID
	}
	moves := map[string]bool{} // by id
	for _, w := range after {
		moves[w.ID] = w.ID != "" && key[w.ID] != ""
	}
	for _, w := range after {
		if key[w.ID] == w.Key {
			moves[w.ID] = false
		}
	}
	moved := map[string]string{}
	for _, w := range after {
		holder, taken := had[w.Key]
		if !moves[w.ID] || taken && !moves[holder] {
			continue
		}
		if from := key[w.ID]; !has[from] || comes(after, from, moves) {
			moved[from] = w.Key
		}
	}
	return moved
}

// comes reports whether the workload that has a key now had another one.
func comes(after []discover.Workload, key string, moves map[string]bool) bool {
	return slices.ContainsFunc(after, func(w discover.Workload) bool { return w.Key == key && moves[w.ID] })
}

// Keys returns the keys of workloads as a set.
func Keys(list []discover.Workload) map[string]bool {
	keys := make(map[string]bool, len(list))
	for _, w := range list {
		keys[w.Key] = true
	}
	return keys
}

// WhatIsNew names the changes of each workload that changed, for a log: "docker:
// labels of web changed".
func WhatIsNew(source string, before, after []discover.Workload) map[string]string {
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
		case !slices.Equal(was.Cgroups, w.Cgroups), !slices.Equal(was.Sockets, w.Sockets):
			why[w.Key] = source + ": cgroups of " + w.Name + " changed"
		case !maps.Equal(labels.Own(was.Labels), labels.Own(w.Labels)), !maps.Equal(was.ImageLabels, w.ImageLabels):
			why[w.Key] = source + ": labels of " + w.Name + " changed"
		}
	}
	for key, w := range old {
		why[key] = source + ": " + w.Name + " is gone"
	}
	return why
}

// Outlived reports whether something of a workload may be there after it is detached, which is the
// workload's then, within its limits: a device that did not go with a pod, a socket that another
// process has. The pod's cgroup is gone by then.
func Outlived(w discover.Workload) bool { return w.Kind == workload.KindPod }

// EndedPod reports whether a workload is what is left of a pod.
func EndedPod(w discover.Workload) bool { return w.Kind == workload.KindPod && w.Ended }

// Expected returns what is expected of a source's list. A pod that has ended by what was seen
// before, and is not expected any more, is as it was there: the source made its list before it knew
// that the pod was detached, and its next one says what is left of it.
func Expected(before, list []discover.Workload, expected func(discover.Workload) bool) (kept []discover.Workload) {
	for _, found := range list {
		if expected(found) {
			kept = append(kept, found)
			continue
		}
		at := slices.IndexFunc(before, func(w discover.Workload) bool { return w.Key == found.Key && EndedPod(w) })
		if at >= 0 {
			kept = append(kept, before[at])
		}
	}
	return kept
}

// WithEnd returns the workloads, of which that with a key has ended. It has no id any more: no pod
// of Kubernetes is meant.
func WithEnd(list []discover.Workload, key string) []discover.Workload {
	list = slices.Clone(list)
	for i := range list {
		if list[i].Key == key {
			list[i].ID, list[i].Ended = "", true
		}
	}
	return list
}
