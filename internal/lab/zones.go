// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"log/slog"
	"math/rand/v2"
	"net/netip"

	"weir/internal/dataplane"
	"weir/internal/dataplane/backends"
	"weir/internal/dataplane/device"
	"weir/internal/dataplane/ifb"
	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
	"weir/internal/policy"
	"weir/internal/policy/zone"
)

// openEnd opens the backend of a zone, or with the name "" that of the ingress that no zone has.
func (s site) openEnd(kind, name string, log *slog.Logger) (dataplane.Backend, error) {
	end := ifb.End{IFB: device.IFB{Link: topology.Uplink, Zone: name, Ingress: s.link.Ingress}}
	if len(s.link.Zones) > 0 {
		end.Area = new(zone.AreaOf(s.areas(), name, func(z zone.Zone) uint64 { return z.Egress }))
	}
	return backends.OpenEnd(kind, end, labOptions, log)
}

// areas are the addresses of the link's zones: the receiver's for the workloads there, and
// others that make a table as large as many prefixes do, the same in each run.
func (s site) areas() []zone.Zone {
	var list []zone.Zone
	random := rand.New(rand.NewPCG(1, 2))
	for _, z := range s.link.Zones {
		area := zone.Zone{Name: z.Name, Egress: uint64(z.Bandwidth)}
		for w, name := range s.zones {
			if name == z.Name {
				area.Prefixes.List = append(area.Prefixes.List, netip.PrefixFrom(scenario.ServerAddress(w), 32))
			}
		}
		for range z.Prefixes {
			n := random.Uint32()
			p, _ := netip.AddrFrom4([4]byte{byte(100 + n>>24%100), byte(n >> 16), byte(n >> 8), byte(n)}).Prefix(16 + random.IntN(17))
			area.Prefixes.List = append(area.Prefixes.List, p)
		}
		list = append(list, area)
	}
	return list
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
