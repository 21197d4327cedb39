// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/goccy/go-yaml/token"

	"weir/internal/base/safepath"
	"weir/internal/core/bound"
	"weir/internal/core/policy"
	"weir/internal/core/policy/zone"
)

// mostPrefixBytes bounds the size of a file with prefixes.
const mostPrefixBytes = bound.Prefixes

// CheckZones returns the first mistake in the link's zones.
func (l Link) CheckZones() error {
	return zone.Check(l.Zones, uint64(float64(l.Egress)*l.Reservable), uint64(l.Ingress))
}

// readZones reads the zones behind a link, in the file's order.
func readZones(fields node) []zone.Zone {
	var list []zone.Zone
	fields.each(func(name string, at *token.Token, value node) {
		z := zone.Zone{Name: name}
		value.refuse(zone.CheckName(name))
		if slices.ContainsFunc(list, func(other zone.Zone) bool { return other.Name == name }) {
			value.tree.problem(at, value.path, "zone %q is there twice; give each one entry", name)
		}
		value.fields([]string{"egress", "ingress", "prefixes", "prefixes_file"}, func(key string, value node) {
			switch key {
			case "egress":
				z.Egress = readZoneRate(value)
			case "ingress":
				z.Ingress = readZoneRate(value)
			case "prefixes":
				readPrefixes(value, &z.Prefixes)
			case "prefixes_file":
				readPath(value, &z.File)
				readPrefixFile(value, z.File, &z.Prefixes)
			}
		})
		list = append(list, z)
	})
	return list
}

func readZoneRate(value node) uint64 {
	var rate policy.Rate
	if text, _ := value.text(); text != "none" {
		readRate(value, &rate)
	}
	return uint64(rate)
}

func readPrefixes(value node, into *zone.Prefixes) {
	if value.isEmptyList() {
		value.wrong("an empty list; leave prefixes out: a zone without them is all that no other zone has")
		return
	}
	value.items(func(item node) {
		if text, ok := item.text(); ok {
			item.refuse(into.Add(text))
		}
	})
}

// readPrefixFile reads the prefixes of a file. A file without any is a mistake: the zone would
// be all that no other zone has.
func readPrefixFile(value node, path string, into *zone.Prefixes) {
	if path == "" {
		return
	}
	text, _, err := safepath.Read(path, mostPrefixBytes)
	var refused *safepath.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		value.wrong("%q: no such file; write one prefix a line into it, or leave prefixes_file out", path)
		return
	case errors.Is(err, safepath.ErrNotRegular):
		value.wrong("%q is no regular file; write one prefix a line into one, and name that", path)
		return
	case errors.Is(err, safepath.ErrLarge):
		value.wrong("%q is larger than %d MB; bring the prefixes down, by shorter ones that hold several", path, mostPrefixBytes>>20)
		return
	case errors.As(err, &refused) && refused.At != path:
		value.wrong("%v", refused) // a line is too short to name the file as well
		return
	case errors.As(err, &refused):
		value.wrong("%q: %v", path, refused)
		return
	case err != nil:
		value.wrong("%q: %v; let the agent read it", path, err)
		return
	}
	before := len(into.List)
	if err := into.AddFile(string(text)); err != nil {
		value.refuse(err)
		return
	}
	if len(into.List) == before && before == 0 {
		value.wrong("%q has no prefix; write one a line into it, or leave prefixes_file out", path)
	}
}

// readZonePolicy reads what a policy says of zones. Whether these are known is found out when
// the links are.
func readZonePolicy(layer *policy.Change, field string, value node) {
	var list []policy.Zoned
	var err error
	if text, single := value.single(); single {
		list, err = policy.ParseZones(text)
	} else {
		list, err = policy.ZonesFrom(value.plain())
	}
	value.refuse(err)
	layer.Set(field, func(p *policy.Policy) { p.Zones = list })
	for _, z := range list {
		value.tree.zones = append(value.tree.zones, zoneName{value, z.Zone})
	}
}

// zoneName is a zone that a policy names, and where.
type zoneName struct {
	at   node
	name string
}

// ZoneNames returns the names of the zones of all links.
func (c Config) ZoneNames() []string {
	var names []string
	for _, l := range c.Links {
		for _, z := range l.Zones {
			names = append(names, z.Name)
		}
	}
	return names
}

// zonesKnown refuses policies that name a zone which no link has.
func (c *Config) zonesKnown(named []zoneName) {
	known := c.ZoneNames()
	for _, z := range named {
		z.at.refuse(zone.Unknown(z.name, known))
	}
}
