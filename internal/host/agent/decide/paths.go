// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"

	"weir/internal/core/paths"
	"weir/internal/host/discover"
)

// takenAt returns the devices at which a workload's packets are taken: those that its source
// names, or those that stand for them (package paths).
func (w World) takenAt(found discover.Workload) []paths.Port {
	list, named := []paths.Port{}, []int{}
	for _, d := range found.Devices {
		list, named = append(list, paths.Port{Name: d.Name, Index: d.Ifindex}), append(named, d.Ifindex)
	}
	if t, ok := w.Paths.Taken[found.Key]; ok && slices.Equal(t.Devices, named) { // else it is of former devices
		return t.Ports
	}
	return list
}

// findPast notes what of a workload's traffic does not meet the links.
func (v *Ruling) findPast(w World) {
	if v.Steered {
		v.Past = slices.Clone(w.Paths.Unsteered[v.Key])
	}
	if v.Unseen && len(v.Devices) == 0 && v.Steered && len(w.Links()) > 0 {
		v.Past = append(v.Past, paths.UnsteeredTraffic{Key: v.Key, Name: v.Name, Reason: v.Awaits, Remedy: "give it a veth to this host"})
	}
}
