// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"

	"weir/internal/config"
	"weir/internal/discover"
	"weir/internal/refusal"
)

// owned refuses an attachment whose device or cgroup belongs to another workload.
func (a *Agent) owned(at config.Attachment) error {
	devices, cgroups := a.attacher().Look(at)
	for _, v := range a.decided.verdicts {
		what := shared(v.Workload, devices, cgroups)
		if what == "" || a.yields(v.Workload) {
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
			Remedy: fmt.Sprintf("set its policy: weir set %s%s", v.Name, a.orDetach(v.Workload))}
	}
	return nil
}

// shared names a device or cgroup that is the workload's, too; "" if none is.
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
func (a *Agent) yields(w discover.Workload) bool {
	byName := func(at config.Attachment) bool { return at.Name != "" && asWorkload(at).Key == w.Key }
	byPattern := func(at config.Attachment) bool { return at.Name == "" && means(at, w) }
	return !slices.ContainsFunc(a.attached, byName) && !slices.ContainsFunc(a.world.config.Attach, byName) &&
		slices.ContainsFunc(a.world.config.Attach, byPattern)
}

// orDetach is the other remedy, where the workload was attached by weir attach.
func (a *Agent) orDetach(w discover.Workload) string {
	if !slices.ContainsFunc(a.attached, func(at config.Attachment) bool { return asWorkload(at).Key == w.Key }) {
		return ""
	}
	return fmt.Sprintf(", or detach that one first: weir detach %s", w.Name)
}
