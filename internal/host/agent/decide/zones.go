// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"weir/internal/config"
	"weir/internal/core/invalid"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/zone"
)

// hasClass reports whether a link has a class on the link of its device: what leaves by a zone
// waits for its turn there, and goes on by the device.
func hasClass(link config.Link) bool { return link.Zone != "" && link.Direction != policy.Ingress }

// zoneClasses returns what a link has a class for beside workloads: its zones. Each has its
// capacity as a min, so that what the zone's own link sends is not kept waiting, and the mins
// of others are admitted for what zones leave.
func (w World) zoneClasses(link plan.Link) []plan.Workload {
	if link.Zone != "" || link.Direction == policy.Ingress {
		return nil
	}
	var list []plan.Workload
	for _, l := range w.Links() {
		if hasClass(l) && l.Device == link.Device {
			p := policy.Default()
			p.Min, p.Discipline = policy.Amount{Rate: l.Capacity()}, discipline.FIFO
			list = append(list, plan.Workload{Key: plan.ZoneKey(l.Name()), Name: "zone " + l.Zone, Policy: p})
		}
	}
	return list
}

// unknownZone returns a mistake if a change names a zone that no link has.
func (w World) unknownZone(c policy.Change) error {
	for _, z := range c.To().Zones {
		if err := zone.Unknown(z.Zone, w.Config.ZoneNames()); err != nil {
			return err
		}
	}
	if c.Ingress != nil {
		return invalid.Within("ingress", w.unknownZone(*c.Ingress))
	}
	return nil
}
