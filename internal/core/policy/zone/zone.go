// SPDX-License-Identifier: Apache-2.0

// Package zone divides what lies behind a link by addresses: the local network, the internet
// behind a modem, a data centre behind a tunnel. A zone has prefixes, and may have a capacity
// of its own, which is less than the device's.
//
//	wan: {egress: 95mbit}                     no prefixes: everything else, the default zone
//	lan: {prefixes: [connected, private]}     no capacity: what the device has left
//
// An address is in the zone that has the longest prefix of it. Parse and ParseFile read
// prefixes, Check finds what is wrong with the zones of a link, AreaOf says which addresses one
// of them has, and Compile makes the trie by which the kernel finds that out (bpf/marking/zone.h).
//
// What it does not do: know the networks of a device (`connected`); they are given to Compile.
package zone

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"weir/internal/core/closest"
	"weir/internal/core/invalid"
)

// Zone is one zone of a link.
type Zone struct {
	Name     string
	Prefixes Prefixes
	File     string // which more prefixes were read from, "" = none
	// Egress and Ingress are its capacity in each direction, wire bits per second; 0 = none of
	// its own.
	Egress, Ingress uint64
}

// Default reports whether the zone has no prefixes: it is all that is in no other zone.
func (z Zone) Default() bool { return len(z.Prefixes.List) == 0 && !z.Prefixes.Connected }

// nameForm is what a zone may be called.
var nameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,14}$`)

// CheckName refuses a text that cannot be a zone's name.
func CheckName(name string) error {
	if nameForm.MatchString(name) && name != "ingress" {
		return nil
	}
	return &invalid.Error{Value: name, Msg: "cannot be a zone's name",
		Remedy: "write up to 15 small letters, digits and dashes, a letter first, and not ingress, which is a direction"}
}

// Unknown returns the mistake of naming a zone that is not among the known ones, nil if it is.
func Unknown(name string, known []string) error {
	if slices.Contains(known, name) {
		return nil
	}
	e := &invalid.Error{Field: "zones", Value: name, Msg: "no link has such a zone", Remedy: "known here: " + strings.Join(known, ", ")}
	if near := closest.Words(name, known, 1); len(near) > 0 {
		e.Remedy = "did you mean " + invalid.Quote(near[0]) + "?"
	} else if len(known) == 0 {
		e.Remedy = "write zones: below a link, or take it out"
	}
	return e
}

// Check returns the first mistake in the zones of a link that has egress and ingress bits per
// second, 0 = that is not steered. It is an *invalid.Error whose field begins with the zone's
// name.
func Check(zones []Zone, egress, ingress uint64) error {
	owner := map[netip.Prefix]string{}
	first, free, connected := "", "", ""
	var sent, received uint64
	for _, z := range zones {
		refuse := func(field, value, msg, remedy string) error {
			return invalid.Within(z.Name, &invalid.Error{Field: field, Value: value, Msg: msg, Remedy: remedy})
		}
		if z.Default() {
			if first != "" {
				return refuse("prefixes", "none", "zone "+first+" has no prefixes either, and only one zone can be all the rest",
					"give one of the two prefixes")
			}
			first = z.Name
		}
		if z.Egress == 0 && z.Ingress == 0 {
			if free != "" {
				return refuse("egress", "none", "zone "+free+" has no capacity of its own either, so nothing tells the two apart",
					"give one of them a capacity, or put their prefixes into one zone")
			}
			free = z.Name
		}
		if z.Prefixes.Connected {
			if connected != "" {
				return refuse("prefixes", Connected, "zone "+connected+" has it already", "take it out of one of the two")
			}
			connected = z.Name
		}
		for _, p := range z.Prefixes.List {
			if other, taken := owner[p]; taken && other != z.Name {
				return refuse("prefixes", p.String(), "zone "+other+" has it already", "take it out of one of the two")
			}
			owner[p] = z.Name
		}
		for _, way := range []struct {
			field                  string
			zone, link, sum, spare uint64 // spare is left for other addresses
			into                   *uint64
		}{{"egress", z.Egress, egress, sent, 0, &sent}, {"ingress", z.Ingress, ingress, received, 1, &received}} {
			*way.into += way.zone
			if left := way.link - min(way.link, way.sum+way.spare); way.link != 0 && way.zone > left {
				return refuse(way.field, rate(way.zone), fmt.Sprintf("zones have %s of the device's %s with it", rate(*way.into), rate(way.link)),
					fmt.Sprintf("write %s or less, or raise the link's %s", rate(left), way.field))
			}
		}
	}
	if len(zones) > 0 && sent == 0 && received == 0 {
		return &invalid.Error{Field: zones[0].Name, Value: "none", Msg: "no zone has a capacity of its own, so they divide nothing",
			Remedy: "give one of them egress or ingress, or leave zones out"}
	}
	return nil
}

// rate writes bits per second as a configuration has them.
func rate(bps uint64) string {
	for _, unit := range []struct {
		size uint64
		name string
	}{{1e9, "gbit"}, {1e6, "mbit"}, {1e3, "kbit"}} {
		if bps >= unit.size && bps%unit.size == 0 {
			return fmt.Sprint(bps/unit.size, unit.name)
		}
	}
	return fmt.Sprint(bps, "bit")
}

// Area says which addresses one link has of those behind a device.
type Area struct {
	In, Out Prefixes // the longest one decides
	Rest    bool     // what is in neither is the area's
	// Bare says that packets without an address (ARP) are the area's: they belong to no zone.
	Bare bool
}

// Capacity returns the capacity that a zone has of its own in a direction; 0 = none.
type Capacity func(Zone) uint64

// AreaOf returns the addresses of the zone with a name: one of the zones with a capacity, or
// with the name "" what those leave.
func AreaOf(zones []Zone, name string, capacity Capacity) Area {
	a := Area{Rest: name == "", Bare: name == ""}
	for _, z := range zones {
		mine := z.Name == name || name == "" && capacity(z) == 0
		switch {
		case z.Default():
			a.Rest = mine
		case mine:
			a.In = a.In.plus(z.Prefixes)
		default:
			a.Out = a.Out.plus(z.Prefixes)
		}
	}
	return a
}

// Of returns the zone that an address is in; nil if it is in none. connected are the networks of
// the device.
func Of(zones []Zone, addr netip.Addr, connected []netip.Prefix) *Zone {
	var found *Zone
	longest := -1
	for i := range zones {
		if zones[i].Default() && longest < 0 {
			found = &zones[i]
		}
		if length := zones[i].Prefixes.longest(addr, connected); length > longest {
			found, longest = &zones[i], length
		}
	}
	return found
}

// DefaultOf returns the zone that has no prefixes; nil if all have some.
func DefaultOf(zones []Zone) *Zone {
	if i := slices.IndexFunc(zones, Zone.Default); i >= 0 {
		return &zones[i]
	}
	return nil
}

// Prefixes are some prefixes, sorted, each once.
type Prefixes struct {
	List      []netip.Prefix
	Connected bool // the device's own networks as well
}

// plus returns the prefixes of p and q.
func (p Prefixes) plus(q Prefixes) Prefixes {
	return Prefixes{sorted(slices.Concat(p.List, q.List)), p.Connected || q.Connected}
}

// longest returns a number that is the larger the longer the longest prefix of an address is, -1
// if there is none. A prefix that is written counts before the same one of the device.
func (p Prefixes) longest(addr netip.Addr, connected []netip.Prefix) int {
	longest := -1
	look := func(list []netip.Prefix, written int) {
		for _, q := range list {
			if q.Contains(addr) {
				longest = max(longest, 2*q.Bits()+written)
			}
		}
	}
	look(p.List, 1)
	if p.Connected {
		look(connected, 0)
	}
	return longest
}

func sorted(list []netip.Prefix) []netip.Prefix {
	slices.SortFunc(list, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(list)
}
