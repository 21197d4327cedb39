// SPDX-License-Identifier: Apache-2.0

package zones

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"weir/internal/core/policy"
)

func TestRead(t *testing.T) {
	got, err := Read("{wan: {bandwidth: 95mbit, prefixes: 10}, cdn: {bandwidth: 1mbit}}", 100e6)
	if want := []Zone{{"wan", 95e6, 10}, {"cdn", 1e6, 0}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"[wan]":                                           "needs a mapping of names",
		"{WAN: {bandwidth: 95mbit}}":                      "cannot be a zone's name",
		"{wan: {rate: 95mbit}}":                           "wan.rate: no such key",
		"{wan: {bandwidth: 95mbps}}":                      "wan.bandwidth: \"95mbps\"",
		"{wan: {}}":                                       "wan: bandwidth is missing",
		"{wan: {bandwidth: 95mbit, prefixes: -1}}":        "wan: -1 prefixes",
		"{a: {bandwidth: 95mbit}, b: {bandwidth: 5mbit}}": "zones have 100 Mbit/s and need less than the link, 100 Mbit/s",
	} {
		if _, err := Read(text, 100e6); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestDivide(t *testing.T) {
	list := []Zone{{Name: "wan", Bandwidth: 30e6}}
	sharers := []policy.Sharer{
		{Weight: 1, Demand: policy.Unlimited}, {Weight: 2, Demand: policy.Unlimited}, // in wan
		{Weight: 1, Demand: policy.Unlimited}, {Weight: 1, Demand: 10e6},
	}
	of := func(w int) (string, policy.Sharer) { return []string{"wan", "wan", "", ""}[w], sharers[w] }
	for ingress, want := range map[bool][]float64{false: {10e6, 20e6, 60e6, 10e6}, true: {10e6, 20e6, 60e6, 10e6}} {
		if got := Divide(100e6, list, ingress, 4, of); !reflect.DeepEqual(got, want) {
			t.Errorf("ingress %v: %v, want %v", ingress, got, want)
		}
	}
	sharers[0].Demand, sharers[1].Demand = 0, 0
	for ingress, want := range map[bool][]float64{false: {0, 0, 90e6, 10e6}, true: {0, 0, 60e6, 10e6}} {
		if got := Divide(100e6, list, ingress, 4, of); !reflect.DeepEqual(got, want) {
			t.Errorf("ingress %v, wan is idle: %v, want %v", ingress, got, want)
		}
	}
}

// TestAreas: each zone has a prefix, also one that no workload sends to, since Weir takes a zone
// without prefixes for the default zone.
func TestAreas(t *testing.T) {
	receiver := func(w int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(w)}) }
	for _, area := range Areas([]Zone{{"wan", 95e6, 10}, {"cdn", 1e6, 0}}, []string{"", "wan", ""}, receiver) {
		list := area.Prefixes.List
		if len(list) == 0 || (area.Name == "wan" && (len(list) != 11 || list[0].Addr() != receiver(1))) {
			t.Errorf("%s has %v", area.Name, list)
		}
		for _, p := range list {
			if p.Contains(receiver(0)) || p.Contains(receiver(2)) {
				t.Errorf("%s has %v, where workloads of no zone send", area.Name, p)
			}
		}
	}
}
