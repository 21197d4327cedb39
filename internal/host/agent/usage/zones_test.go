// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/policy/zone"
)

func TestFindZones(t *testing.T) {
	var lan, cdn zone.Prefixes
	for prefixes, text := range map[*zone.Prefixes]string{&lan: zone.Connected, &cdn: "192.0.2.0/24"} {
		if err := prefixes.Add(text); err != nil {
			t.Fatal(err)
		}
	}
	eth0 := config.DefaultLink("eth0", 950e6)
	eth0.Zones = []zone.Zone{{Name: "wan", Egress: 95e6}, {Name: "lan", Prefixes: lan}}
	eth1 := config.DefaultLink("eth1", 1e9)
	eth1.Zones = []zone.Zone{{Name: "cdn", Prefixes: cdn, Egress: 300e6}}
	links := []config.Link{eth0, config.DefaultLink("plain0", 1e9), eth1}
	networks := func(device string) ([]netip.Prefix, error) {
		if device == "plain0" {
			return nil, errors.New("a link without zones is asked about")
		}
		return []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, nil
	}
	for receiver, want := range map[string]string{
		"":            "It waits.",
		"8.8.8.8":     "It waits. 8.8.8.8 is in zone wan of eth0, which has 95 Mbit/s. 8.8.8.8 is in no zone of eth1 and has what the zones leave of 1 Gbit/s.",
		"203.0.113.5": "It waits. 203.0.113.5 is in zone lan of eth0, which has what other zones leave of 950 Mbit/s. 203.0.113.5 is in no zone of eth1 and has what the zones leave of 1 Gbit/s.",
		"192.0.2.1":   "It waits. 192.0.2.1 is in zone wan of eth0, which has 95 Mbit/s. 192.0.2.1 is in zone cdn of eth1, which has 300 Mbit/s.",
	} {
		place := api.Placement{Text: "It waits."}
		if err := FindZones(&place, receiver, links, networks); err != nil {
			t.Fatal(err)
		}
		if place.Text != want || len(place.Zones) != strings.Count(want, " of eth") {
			t.Errorf("%s: %s\n%+v, want\n%s", receiver, place.Text, place.Zones, want)
		}
	}
}
