// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"net/netip"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/policy"
	"weir/internal/core/policy/zone"
)

// FindZones adds to a packet's place in which zone of each link its receiver is; "" = the receiver
// is not known. networks returns those of a device.
func FindZones(place *api.Placement, receiver string, links []config.Link, networks func(device string) ([]netip.Prefix, error)) error {
	addr, err := netip.ParseAddr(receiver)
	if err != nil {
		return nil // none was given
	}
	for _, l := range links {
		if len(l.Zones) == 0 {
			continue
		}
		connected, err := networks(l.Device)
		if err != nil {
			return err
		}
		found := api.PlacedZone{Device: l.Device}
		z := zone.Of(l.Zones, addr, connected)
		switch {
		case z == nil:
			place.Text += fmt.Sprintf(" %s is in no zone of %s and has what the zones leave of %s.", addr, l.Device, l.Egress)
		case z.Egress == 0:
			found.Zone = z.Name
			place.Text += fmt.Sprintf(" %s is in zone %s of %s, which has what other zones leave of %s.", addr, z.Name, l.Device, l.Egress)
		default:
			found.Zone, found.CapacityBps = z.Name, z.Egress
			place.Text += fmt.Sprintf(" %s is in zone %s of %s, which has %s.", addr, z.Name, l.Device, policy.Rate(z.Egress))
		}
		place.Zones = append(place.Zones, found)
	}
	return nil
}
