// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"weir/internal/core/policy"
)

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i+1) }

func (r *reader) phases(n ast.Node, s *Scenario) {
	items := r.items(n, "phases", "a list such as [{for: 10s}]")
	if len(items) == 0 && len(r.problems) == 0 {
		r.fail(n, "phases", "", "needs at least one phase such as {for: 10s}")
	}
	for i, item := range items {
		path, p, before := index("phases", i), Phase{}, len(r.problems)
		r.fields(item, path, "a mapping such as {for: 10s}", map[string]field{
			"for":    r.duration(&p.For, 1),
			"set":    func(n ast.Node, path string) { p.Set = r.changes(n, path, s) },
			"groups": func(n ast.Node, path string) { p.SetGroups = r.groupChanges(n, path, s) },
		})
		switch {
		case len(r.problems) > before:
		case p.For == 0:
			r.fail(item, join(path, "for"), "", "missing; write for: 10s")
		case p.For <= s.Settle && s.Cost == nil:
			r.fail(item, join(path, "for"), p.For.String(),
				"must be longer than settle (%v), which is left out of the measurement", s.Settle)
		}
		s.Phases = append(s.Phases, p)
	}
}

func (r *reader) changes(n ast.Node, path string, s *Scenario) []WorkloadChange {
	list, ok := r.entries(n, path, "a mapping such as {c1: {min: 30mbit}}")
	if !ok {
		return nil
	}
	var changes []WorkloadChange
	for _, e := range list {
		name := keyText(e.Key)
		w := s.Index(name)
		if w < 0 {
			r.unknown(e.Key, path, "workload", name, workloadNames(s))
			continue
		}
		c := WorkloadChange{Workload: w}
		known := r.policyFields(&c, s)
		if s.OVS != nil {
			known = map[string]field{}
		}
		known["traffic"] = func(n ast.Node, path string) { c.Traffic = r.trafficChange(n, path, s) }
		r.fields(e.Value, join(path, name), "a mapping such as {min: 30mbit}", known)
		changes = append(changes, c)
	}
	return changes
}

func (r *reader) trafficChange(n ast.Node, path string, s *Scenario) *TrafficChange {
	switch n.(type) {
	case *ast.SequenceNode:
		return &TrafficChange{Mode: Replace, List: r.trafficList(n, path, s)}
	}
	switch v := text(n); v {
	case "off", "false":
		return &TrafficChange{Mode: Off}
	case "on", "true":
		return &TrafficChange{Mode: On}
	default:
		r.fail(n, path, v, "needs off, on or %s", trafficForm)
		return nil
	}
}

func workloadNames(s *Scenario) []string {
	var list []string
	for _, w := range s.Workloads {
		list = append(list, w.Name)
	}
	return list
}

// check looks at what no single value shows: a min above its max, mins beyond
// the link, changes that add up to either, ports used twice.
func (r *reader) check(s *Scenario, root ast.Node, at map[string]ast.Node) {
	for p, now := range s.Promises() {
		where, path := at["workloads"], "workloads"
		if p > 0 {
			where, path = at["phases"].(*ast.SequenceNode).Values[p], index("phases", p)
		} else if n, ok := at["phases"].(*ast.SequenceNode); ok && len(s.Phases[0].Set) > 0 {
			where, path = n.Values[0], index("phases", 0)
		}
		var sum policy.Rate
		var parts []string
		for w, pol := range now.Workloads {
			name := s.Workloads[w].Name
			if pol.Max != 0 && pol.Min > pol.Max {
				r.fail(r.entry(where, name), path+"."+name, "", "min %s is above max %s; lower min or raise max",
					pol.Min, pol.Max)
			}
			if _, err := pol.Asked().Sharer(s.Link.Bandwidth); err != nil && len(r.problems) == 0 {
				r.refuse(r.entry(where, name), path+"."+name, err)
			}
			if floor := pol.Asked().Floor(s.Link.Bandwidth, 0); pol.Group == "" && floor > 0 {
				sum += floor
				parts = append(parts, name+" "+floor.String())
			}
		}
		r.checkGroups(s, now, where, path)
		for g, pol := range now.Groups {
			name := s.Groups[g].Name
			reserved := cmp.Or(pol.Min, policy.Sum(floors(now, name, s)))
			if sum += reserved; reserved > 0 {
				parts = append(parts, "group "+name+" "+reserved.String())
			}
		}
		if sum > s.Link.Bandwidth {
			r.fail(where, path, "", "the mins add up to %s (%s), which is %s more than the link's %s; lower one",
				sum, strings.Join(parts, ", "), sum-s.Link.Bandwidth, s.Link.Bandwidth)
		}
		if len(r.problems) > 0 {
			return // later phases inherit the mistake
		}
	}
	r.checkPorts(s, at["workloads"])
	if d, most := s.Duration(), Bucket*time.Duration(maxBuckets/(len(s.Workloads)+len(s.Entries()))); d > most {
		r.fail(root, "phases", d.String(), "too long for %d workloads; at most %v", len(s.Workloads), most)
	}
}

// entry is the key of that name in a mapping, the mapping itself if it has none.
func (r *reader) entry(n ast.Node, name string) ast.Node {
	if m, ok := n.(*ast.MappingNode); ok {
		for _, e := range m.Values {
			if keyText(e.Key) == name {
				return e.Key
			}
		}
	}
	return n
}

func (r *reader) checkPorts(s *Scenario, where ast.Node) {
	flows := s.Flows()
	for i, a := range flows {
		for _, b := range flows[:i] {
			if a.Port != 0 && a.Port == b.Port && a.Workload == b.Workload && a.From < b.To && b.From < a.To {
				r.fail(where, "workloads."+s.Workloads[a.Workload].Name, "",
					"port %d is used by two generators at the same time; give each its own", a.Port)
				return
			}
		}
	}
}
