// SPDX-License-Identifier: Apache-2.0

// Package top is the live view of weir top: a full screen on a terminal, plain
// lines elsewhere.
//
// It has three layers. state keeps the last sample and a minute of history and
// is fed with samples; view turns a state into text and does nothing else; the
// program (bubbletea) carries keys and samples to the state and text to the
// screen. So a picture like
//
//	eth0 egress (upload)  ███████████████░  93.0 of 100.0 Mbit/s, 93 %
//	  WORKLOAD     RATE  SHARE    IDEAL   BACKLOG  LAST 60 s
//	> web          50.0   50 %     50.0    12 pkt  ▁▂▄▆██████
//	  batch        33.0   33 %     33.0  1000 pkt  ▅▅▅▅▅▅▅▅▅▅
//
// can be compared with a golden file, without a terminal and without an agent.
//
// What it does not do: compute shares or ideals. They come with the samples.
package top

import (
	"cmp"
	"math"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/core/workload"
)

// historyLength is the number of seconds in the history of each workload.
const historyLength = 60

// rowID names one workload on one link for as long as it is the same.
type rowID struct{ link, key string }

// row is one line of the table.
type row struct {
	id       rowID
	workload api.Workload // for a group, what it has in common with one
	link     api.WorkloadLink
	history  []float64 // rates in bits per second, the newest last; NaN = not known
	inGroup  bool      // it stands below its group's row
}

// name returns the row's as it is shown: indented below a group.
func (r row) name() string {
	if r.inGroup {
		return "  " + r.workload.Name
	}
	return r.workload.Name
}

// asWorkload makes a row's workload of a group.
func asWorkload(g api.Group) api.Workload {
	return api.Workload{
		Name: g.Name, Key: workload.Key(workload.KindGroup, g.Name), Kind: workload.KindGroup, Class: g.Class, State: g.State, Note: g.Note,
		Policy: api.PolicyOf(g.Policy.Policy), Links: g.Links,
	}
}

// entries returns the sample's workloads, and its groups as such.
func (s *state) entries() []api.Workload { return entries(s.sample) }

func entries(sample api.Sample) []api.Workload {
	all := slices.Clone(sample.Workloads)
	for _, g := range sample.Groups {
		all = append(all, asWorkload(g))
	}
	return all
}

// state holds the last sample and the history of each row.
type state struct {
	sample  api.Sample
	history map[rowID][]float64
}

// add takes in a sample. Seconds for which none came (the agent was restarted,
// or lost it for us) are kept as unknown, so that the history stays to scale.
func (s *state) add(sample api.Sample) {
	missed := 0
	if !s.sample.At.IsZero() {
		elapsed := math.Round(sample.At.Sub(s.sample.At).Seconds())
		missed = int(min(max(elapsed-1, 0), historyLength))
	}
	next := make(map[rowID][]float64, len(s.history))
	for _, w := range entries(sample) {
		for _, l := range w.Links {
			id := rowID{api.LinkName(l.Device, l.Direction), keyOf(w)}
			h := slices.Clone(s.history[id])
			if len(h) > 0 {
				for range missed {
					h = append(h, math.NaN())
				}
			}
			h = append(h, l.RateBps)
			next[id] = h[max(0, len(h)-historyLength):]
		}
	}
	s.sample, s.history = sample, next
}

// at returns the time of the last sample.
func (s *state) at() time.Time { return s.sample.At }

func keyOf(w api.Workload) string { return cmp.Or(w.Key, w.Name) }

// rows returns the lines of one link (api.LinkName) in an order; the members of a group
// follow it, in the same order among themselves.
func (s *state) rows(link string, by order) []row {
	var top []row
	members := map[string][]row{} // by the name of their group
	groups := map[string]bool{}
	for _, g := range s.sample.Groups {
		groups[g.Name] = slices.ContainsFunc(g.Links, func(l api.WorkloadLink) bool { return api.LinkName(l.Device, l.Direction) == link })
	}
	for _, w := range s.entries() {
		for _, l := range w.Links {
			if api.LinkName(l.Device, l.Direction) != link {
				continue
			}
			id := rowID{link, keyOf(w)}
			r := row{id: id, workload: w, link: l, history: s.history[id], inGroup: groups[w.Policy.Group]}
			if r.inGroup {
				members[w.Policy.Group] = append(members[w.Policy.Group], r)
			} else {
				top = append(top, r)
			}
		}
	}
	by.sort(top)
	var rows []row
	for _, r := range top {
		rows = append(rows, r)
		if r.workload.Kind == workload.KindGroup {
			by.sort(members[r.workload.Name])
			rows = append(rows, members[r.workload.Name]...)
		}
	}
	return rows
}

// allRows returns the lines of every link, in the order in which they are shown.
func (s *state) allRows(by order) []row {
	var all []row
	for _, l := range s.sample.Links {
		all = append(all, s.rows(api.LinkName(l.Device, l.Direction), by)...)
	}
	return all
}

// troubled returns workloads and groups that do not have all of their policy.
func (s *state) troubled() []api.Workload {
	return slices.DeleteFunc(s.entries(), func(w api.Workload) bool { return !troubled(w) })
}

// troubled reports whether a part of the workload's wanted policy is not in force.
func troubled(w api.Workload) bool {
	return w.State == workload.StateRefused || w.State == workload.StateNotHeld
}

// linkless returns workloads that are on no link, because their network is not up or
// because they cannot be steered.
func (s *state) linkless() []api.Workload {
	var out []api.Workload
	for _, w := range s.sample.Workloads {
		if len(w.Links) == 0 && !troubled(w) {
			out = append(out, w)
		}
	}
	return out
}

// order is a way to sort rows.
type order struct {
	name    string
	compare func(a, b row) int
}

func (o order) sort(rows []row) {
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(o.compare(a, b), cmp.Compare(a.workload.Name, b.workload.Name), cmp.Compare(a.id.key, b.id.key))
	})
}

// orders are the orders that the key s goes through; the largest comes first.
var orders = []order{
	{"rate", func(a, b row) int { return cmp.Compare(b.link.RateBps, a.link.RateBps) }},
	{"name", func(row, row) int { return 0 }}, // ties are broken by name
	{"weight", func(a, b row) int { return cmp.Compare(b.workload.Policy.Weight, a.workload.Policy.Weight) }},
	{"backlog", func(a, b row) int { return cmp.Compare(b.link.BacklogBytes, a.link.BacklogBytes) }},
	{"drops", func(a, b row) int { return cmp.Compare(b.link.DropsPerSecond, a.link.DropsPerSecond) }},
}
