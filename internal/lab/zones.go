// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"log/slog"

	"weir/internal/core/policy"
	"weir/internal/core/policy/zone"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/backends"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/ifb"
	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
	"weir/internal/lab/zones"
)

// openEnd opens the backend of a zone, or with the name "" that of the ingress that no zone has.
func (s site) openEnd(kind, name string, log *slog.Logger) (dataplane.Backend, error) {
	end := ifb.End{IFB: device.IFB{Link: topology.Uplink, Zone: name, Ingress: s.link.Ingress}}
	if len(s.link.Zones) > 0 {
		areas := zones.Areas(s.link.Zones, s.zones, scenario.ServerAddress)
		end.Area = new(zone.AreaOf(areas, name, func(z zone.Zone) uint64 { return z.Egress }))
	}
	return backends.OpenEnd(kind, end, labOptions, log)
}

// rest is the bandwidth of the link's own scheduler: of an ingress, what zones do not have.
func (s site) rest() policy.Rate {
	left := s.link.Bandwidth
	for _, z := range s.link.Zones {
		if s.link.Ingress {
			left -= z.Bandwidth
		}
	}
	return left
}
