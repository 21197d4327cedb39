// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"weir/internal/invalid"
	"weir/internal/policy"
	"weir/internal/policy/zone"
)

// Zone is a part of what lies behind the link, with a bandwidth of its own: the receiver's
// addresses for the workloads that name it.
type Zone struct {
	Name      string
	Bandwidth policy.Rate
	Prefixes  int // of it besides, which no packet goes to
}

// zones reads the zones behind the link.
func (r *reader) zones(s *Scenario) field {
	return func(n ast.Node, path string) {
		list, _ := r.entries(n, path, "a mapping of names, such as {wan: {bandwidth: 95mbit}}")
		var sum policy.Rate
		for _, e := range list {
			z := Zone{Name: keyText(e.Key)}
			at := join(path, z.Name)
			if err := zone.CheckName(z.Name); err != nil {
				r.refuse(e.Key, at, invalid.InField("", err))
				continue
			}
			r.fields(e.Value, at, "a mapping such as {bandwidth: 95mbit}", map[string]field{
				"bandwidth": r.positiveRate(&z.Bandwidth, 0),
				"prefixes":  r.count(&z.Prefixes, 0, 20_000, "a number of prefixes"),
			})
			if z.Bandwidth == 0 {
				r.fail(e.Value, at, "", "missing; write bandwidth: 95mbit")
			}
			sum += z.Bandwidth
			s.Link.Zones = append(s.Link.Zones, z)
		}
		if s.Link.Bandwidth != 0 && sum >= s.Link.Bandwidth {
			r.fail(n, path, sum.String(), "zones need less than the link has, %s; lower theirs", s.Link.Bandwidth)
		}
	}
}

// zone reads the name of one of them.
func (r *reader) zone(into *string, s *Scenario) field {
	var names []string
	for _, z := range s.Link.Zones {
		names = append(names, z.Name)
	}
	return r.word(into, "zone", names)
}

// divideZones is what the contract gives each workload of a link with zones: a zone's workloads
// share its bandwidth, and the others what zones leave; of an ingress, what zones do not have.
func (s *Scenario) divideZones(now Promises, demand []policy.Rate) []float64 {
	shares := make([]float64, len(now.Workloads))
	rest := s.Link.Capacity()
	for _, z := range append(slices.Clone(s.Link.Zones), Zone{}) {
		var claims []policy.Claim
		var whose []int
		for w, p := range now.Workloads {
			if s.Workloads[w].Zone == z.Name {
				claims, whose = append(claims, s.claim(p, demand[w])), append(whose, w)
			}
		}
		capacity := z.Bandwidth
		if z.Name == "" {
			capacity = rest
		}
		used := 0.0
		for i, share := range policy.Divide(capacity, claims).Shares {
			shares[whose[i]] = share.Bps
			used += share.Bps
		}
		if s.Link.Ingress {
			used = float64(z.Bandwidth)
		}
		rest -= policy.Rate(used)
	}
	return shares
}
