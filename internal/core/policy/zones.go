// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/core/bound"
	"weir/internal/core/invalid"
	"weir/internal/core/policy/zone"
	"weir/internal/core/yamltree"
)

// Zoned is what a policy says of one zone of a link, in the place of what it says of all.
type Zoned struct {
	Zone     string
	Weight   uint32 // 0 = the policy's own
	Min, Max Amount
}

// ParseZones reads what a policy says of zones: "lan max 200mbit; cdn weight 3 min 5mbit", none
// for "none" or nothing. The error is an *invalid.Error; its field is such as "zones.lan.max".
func ParseZones(text string) ([]Zoned, error) {
	if text = strings.TrimSpace(text); text == "" || strings.EqualFold(text, "none") {
		return nil, nil
	}
	if n := strings.Count(text, ";") + 1; n > bound.Zones {
		return nil, &invalid.Error{Field: "zones", Msg: fmt.Sprintf("%d zones, %d are the most", n, bound.Zones), Remedy: "write fewer"}
	}
	var list []Zoned
	for part := range strings.SplitSeq(text, ";") {
		words := strings.Fields(part)
		if len(words) == 0 {
			return nil, &invalid.Error{Field: "zones", Value: text, Msg: "a zone without a name", Remedy: zonesRemedy}
		}
		z := Zoned{Zone: words[0]}
		if err := zone.CheckName(z.Zone); err != nil {
			return nil, invalid.InField("zones", err)
		}
		if slices.ContainsFunc(list, func(other Zoned) bool { return other.Zone == z.Zone }) {
			return nil, &invalid.Error{Field: "zones." + z.Zone, Value: text, Msg: "is there twice", Remedy: "write all of it behind the first"}
		}
		if len(words)%2 == 0 || len(words) == 1 {
			return nil, &invalid.Error{Field: "zones." + z.Zone, Value: strings.TrimSpace(part), Msg: "says nothing of the zone, or ends in the middle", Remedy: zonesRemedy}
		}
		for pair := range slices.Chunk(words[1:], 2) {
			if err := z.read(pair[0], pair[1]); err != nil {
				return nil, invalid.Within("zones."+z.Zone, err)
			}
		}
		list = append(list, z)
	}
	return list, nil
}

const zonesRemedy = "write the zone's name and weight, min or max, such as lan max 200mbit"

func (z *Zoned) read(field, text string) (err error) {
	switch field {
	case "weight":
		z.Weight, err = ParseWeight(text)
	case "min":
		z.Min, err = ParseAmount(text)
	case "max":
		z.Max, err = ParseAmount(text)
	default:
		return &invalid.Error{Field: field, Value: text, Msg: "cannot be said of one zone", Remedy: "write weight, min or max"}
	}
	return invalid.InField(field, err)
}

// ZonesFrom reads the same from a decoded tree: {lan: {max: 200mbit}}.
func ZonesFrom(tree any) ([]Zoned, error) {
	zones, ok := tree.(yamltree.Mapping)
	if !ok {
		return nil, &invalid.Error{Field: "zones", Value: fmt.Sprint(tree), Msg: "no zones", Remedy: "write them as {lan: {max: 200mbit}}"}
	}
	var parts []string
	for _, z := range zones {
		fields, ok := z.Value.(yamltree.Mapping)
		if !ok {
			return nil, &invalid.Error{Field: "zones." + z.Key, Value: fmt.Sprint(z.Value), Msg: "no fields", Remedy: "write them as {max: 200mbit}"}
		}
		words := []string{z.Key}
		for _, f := range fields {
			words = append(words, f.Key, strings.ReplaceAll(fmt.Sprint(f.Value), " ", ""))
		}
		parts = append(parts, strings.Join(words, " "))
	}
	return ParseZones(strings.Join(parts, "; "))
}

func writeZones(list []Zoned) string {
	var parts []string
	for _, z := range list {
		words := []string{z.Zone}
		if z.Weight != 0 {
			words = append(words, "weight", fmt.Sprint(z.Weight))
		}
		if !z.Min.None() {
			words = append(words, "min", z.Min.Compact())
		}
		if !z.Max.None() {
			words = append(words, "max", z.Max.Compact())
		}
		if len(words) == 1 {
			words = append(words, "max", "none")
		}
		parts = append(parts, strings.Join(words, " "))
	}
	return strings.Join(parts, "; ")
}

// checkZones reports the first mistake in what p says of zones.
func (p Policy) checkZones() error {
	for _, z := range p.Zones {
		own := Policy{Weight: max(z.Weight, 1), Min: z.Min, Max: z.Max}
		if err := own.Check(); err != nil {
			return invalid.Within("zones."+z.Zone, err)
		}
	}
	return nil
}

// InZone returns the promise for a zone. Beside the default zone a workload has its weight, its
// groups and its disciplines, and no min or max but what its policy says of that very zone.
func (p Policy) InZone(name string, aside bool) Policy {
	if aside {
		p.Min, p.Max, p.Reserve, p.Burst = Amount{}, Amount{}, Amount{}, 0
		p.Queues = slices.Clone(p.Queues)
		for i := range p.Queues {
			p.Queues[i].Reserve = Amount{}
		}
	}
	for _, z := range p.Zones {
		if z.Zone != name {
			continue
		}
		p.Min, p.Max = z.Min, z.Max
		if z.Weight != 0 {
			p.Weight = z.Weight
		}
	}
	p.Zones = nil
	return p
}
