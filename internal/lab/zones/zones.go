// SPDX-License-Identifier: Apache-2.0

// Package zones has the zones of a scenario: parts of what lies behind the link, each with a
// bandwidth of its own. Read reads them from a scenario file, Divide says what the contract gives
// each workload of such a link, and Areas which addresses the zones have.
//
//	zones: {wan: {bandwidth: 95mbit, prefixes: 10000}}
//
// A zone has the receiver's addresses for the workloads that name it.
package zones

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"

	"weir/internal/core/bound"
	"weir/internal/core/policy"
	"weir/internal/core/policy/zone"
	"weir/internal/core/yamltree"
)

// Zone is one zone.
type Zone struct {
	Name      string
	Bandwidth policy.Rate
	Prefixes  int // of it besides, which no packet goes to
}

// Names returns the names of zones.
func Names(list []Zone) []string {
	var names []string
	for _, z := range list {
		names = append(names, z.Name)
	}
	return names
}

// Read reads zones behind a link of this rate from a part of a scenario file; "" has none.
func Read(text string, link policy.Rate) ([]Zone, error) {
	if text == "" {
		return nil, nil
	}
	tree, err := yamltree.Parse(text, bound.Policy, bound.Levels)
	if err != nil {
		return nil, err
	}
	names, ok := tree.(yamltree.Mapping)
	if !ok {
		return nil, fmt.Errorf("needs a mapping of names, such as {wan: {bandwidth: 95mbit}}")
	}
	var list []Zone
	for _, entry := range names {
		z := Zone{Name: entry.Key}
		if err := zone.CheckName(z.Name); err != nil {
			return nil, err
		}
		fields, _ := entry.Value.(yamltree.Mapping)
		for _, f := range fields {
			value := fmt.Sprint(f.Value)
			switch f.Key {
			case "bandwidth":
				z.Bandwidth, err = policy.ParseRate(value)
			case "prefixes":
				z.Prefixes, err = strconv.Atoi(value)
			default:
				err = fmt.Errorf("no such key; known here: bandwidth, prefixes")
			}
			if err != nil {
				return nil, fmt.Errorf("%s.%s: %w", z.Name, f.Key, err)
			}
		}
		list = append(list, z)
	}
	return list, check(list, link)
}

// check returns what is wrong with the zones of a link.
func check(list []Zone, link policy.Rate) error {
	var sum policy.Rate
	for _, z := range list {
		if z.Bandwidth == 0 {
			return fmt.Errorf("%s: bandwidth is missing; write {bandwidth: 95mbit}", z.Name)
		}
		if z.Prefixes < 0 || z.Prefixes > 20_000 {
			return fmt.Errorf("%s: %d prefixes; write 0 to 20000", z.Name, z.Prefixes)
		}
		sum += z.Bandwidth
	}
	if sum >= link && sum > 0 {
		return fmt.Errorf("zones have %s and need less than the link, %s; lower theirs", sum, link)
	}
	return nil
}

// Divide returns what the contract gives each of some workloads: a zone's workloads share its
// bandwidth, and the others what zones leave; of an ingress, what zones do not have. of returns a
// workload's zone, "" = none, and what it is there.
func Divide(capacity policy.Rate, list []Zone, ingress bool, workloads int, of func(workload int) (zone string, s policy.Sharer)) []float64 {
	shares, rest := make([]float64, workloads), capacity
	for _, z := range append(slices.Clone(list), Zone{}) {
		var sharers []policy.Sharer
		var whose []int
		for w := range workloads {
			if name, sharer := of(w); name == z.Name {
				sharers, whose = append(sharers, sharer), append(whose, w)
			}
		}
		if z.Name == "" {
			z.Bandwidth = rest
		}
		used := 0.0
		for i, share := range policy.Divide(z.Bandwidth, sharers).Shares {
			shares[whose[i]] = share.Bps
			used += share.Bps
		}
		if ingress {
			used = float64(z.Bandwidth)
		}
		rest -= policy.Rate(used)
	}
	return shares
}

// Areas returns the addresses of zones: the receiver's for the workloads there, and others that
// make a table as large as many prefixes do, the same in each run.
func Areas(list []Zone, workloads []string, receiver func(workload int) netip.Addr) []zone.Zone {
	var areas []zone.Zone
	random := rand.New(rand.NewPCG(1, 2))
	for _, z := range list {
		area := zone.Zone{Name: z.Name, Egress: uint64(z.Bandwidth)}
		for w, name := range workloads {
			if name == z.Name {
				area.Prefixes.List = append(area.Prefixes.List, netip.PrefixFrom(receiver(w), 32))
			}
		}
		besides := z.Prefixes
		if len(area.Prefixes.List) == 0 {
			besides = max(1, besides) // without prefixes it would be the default zone
		}
		for range besides {
			n := random.Uint32()
			p, _ := netip.AddrFrom4([4]byte{byte(100 + n>>24%100), byte(n >> 16), byte(n >> 8), byte(n)}).Prefix(16 + random.IntN(17))
			area.Prefixes.List = append(area.Prefixes.List, p)
		}
		areas = append(areas, area)
	}
	return areas
}
