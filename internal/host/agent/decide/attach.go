// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"slices"

	"weir/internal/config"
	"weir/internal/core/refusal"
	"weir/internal/core/workload"
	"weir/internal/host/discover"
)

// WorkloadOf returns an attachment's workload, as far as it is known before the source has looked
// for it. Of an attachment without a name that is only the kind of its workloads.
func WorkloadOf(a config.Attachment) discover.Workload {
	switch {
	case a.Pod != "":
		w := named(workload.KindPod, a.Name)
		w.ID = a.Pod
		return w
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

// Attached returns an attachment's workload until its source reports it. A pod has its devices at
// once: its first container waits for them, and the source tells of them milliseconds later.
func Attached(a config.Attachment, devices []discover.Device) discover.Workload {
	w := WorkloadOf(a)
	if a.Pod != "" {
		w.Devices = devices
	}
	return w
}

func named(kind, name string) discover.Workload {
	return discover.Workload{Key: workload.Key(kind, name), Name: name, Kind: kind}
}

// means reports whether an attachment makes the workload w, or, if it has no name, may make it.
func means(at config.Attachment, w discover.Workload) bool {
	wanted := WorkloadOf(at)
	return wanted.Key == w.Key || at.Name == "" && wanted.Kind == w.Kind
}

// Attaches reports whether a workload is one that weir attach or the configuration asks for.
func (w World) Attaches(found discover.Workload) bool {
	meant := func(at config.Attachment) bool { return means(at, found) }
	return slices.ContainsFunc(w.Attached, meant) || slices.ContainsFunc(w.Config.Attach, meant)
}

// NameTaken reports whether weir attach has given the name of an attachment to another one.
func (w World) NameTaken(at config.Attachment) bool {
	return slices.ContainsFunc(w.Attached, func(b config.Attachment) bool { return b.Name == at.Name }) // which have names
}

// owned refuses an attachment of which a device or cgroup belongs to another workload.
func (d Decision) owned(at config.Attachment, devices []discover.Device, cgroups []string) error {
	for _, v := range d.Rulings {
		what := shared(v.Workload, devices, cgroups)
		if what == "" || v.Key == WorkloadOf(at).Key || d.World.yields(v.Workload) {
			continue
		}
		field, value := "netns", at.Netns
		for _, given := range []struct{ field, value string }{{"device", at.Device}, {"unit", at.Unit}, {"cgroup", at.Cgroup}} {
			if given.value != "" {
				field, value = given.field, given.value
			}
		}
		msg := fmt.Sprintf("belongs to workload %s (%s) already", v.Name, v.Key)
		if what != value {
			msg = "its " + what + " " + msg
		}
		return &refusal.Error{Kind: refusal.Conflict, Field: field, Value: value, Msg: msg,
			Remedy: fmt.Sprintf("set its policy: weir set %s%s", v.Name, d.World.orDetach(v.Workload))}
	}
	return nil
}

// shared returns the name of a device or cgroup that the workload has too, "" if there is none.
func shared(w discover.Workload, devices []discover.Device, cgroups []string) string {
	for _, d := range devices {
		if slices.ContainsFunc(w.Devices, func(has discover.Device) bool { return has.Ifindex == d.Ifindex }) {
			return d.Name
		}
	}
	for _, c := range cgroups {
		if slices.Contains(w.Cgroups, c) {
			return c
		}
	}
	return ""
}

// yields reports whether a workload was found by a pattern of the configuration: what
// is attached by its name takes its place.
func (w World) yields(found discover.Workload) bool {
	byName := func(at config.Attachment) bool { return at.Name != "" && WorkloadOf(at).Key == found.Key }
	byPattern := func(at config.Attachment) bool { return at.Name == "" && means(at, found) }
	return !slices.ContainsFunc(w.Attached, byName) && !slices.ContainsFunc(w.Config.Attach, byName) &&
		slices.ContainsFunc(w.Config.Attach, byPattern)
}

// orDetach returns a second remedy for a workload that weir attach made.
func (w World) orDetach(found discover.Workload) string {
	if !slices.ContainsFunc(w.Attached, func(at config.Attachment) bool { return WorkloadOf(at).Key == found.Key }) {
		return ""
	}
	return fmt.Sprintf(", or detach that one first: weir detach %s", found.Name)
}
