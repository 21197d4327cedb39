// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
)

// Switch is the topology of one Open vSwitch with a host per workload, whose port
// to the receiver is the shared link.
type Switch struct {
	// Policy has the discipline of the port and its queues. Their matches become
	// OpenFlow rules that set the queue.
	Policy Policy
	// HTBMin is the min-rate of those of ovs-htb's queues that have no min.
	HTBMin policy.Rate
}

// DefaultHTBMin is the least that Open vSwitch gives a queue of linux-htb: a full
// frame a second.
const DefaultHTBMin policy.Rate = 12000

// switchSchedulers can schedule the port of a switch.
var switchSchedulers = append(slices.Clone(plan.Schedulers), OVSHTB)

// CanSchedule says whether a scheduler fits the scenario's topology.
func (s *Scenario) CanSchedule(scheduler string) bool {
	if s.OVS != nil {
		return slices.Contains(switchSchedulers, scheduler)
	}
	return scheduler != OVSHTB
}

// ovs reads the topology.
func (r *reader) ovs(n ast.Node, s *Scenario) {
	s.OVS = &Switch{HTBMin: DefaultHTBMin}
	var layer policy.Change
	known := map[string]field{"htb_min": r.positiveRate(&s.OVS.HTBMin, s.Link.Bandwidth)}
	for _, key := range []string{"discipline", "queues", "aqm"} {
		known[key] = func(n ast.Node, path string) { r.insideField(&layer, key, n, path, s) }
	}
	before := len(r.problems)
	r.fields(n, "ovs", "a mapping such as {discipline: cbwfq, queues: {a: {min: 1mbit}}}", known)
	if len(r.problems) > before {
		return
	}
	p := layer.Apply(policy.Default())
	s.OVS.Policy = Policy{Weight: 1, Discipline: p.Discipline, Queues: p.Queues, AQM: p.AQM}
	if _, err := s.OVS.checked().Sharer(s.Link.Bandwidth); err != nil {
		r.refuse(n, "ovs", err)
	}
	switch {
	case !s.CanSchedule(s.Scheduler):
		r.fail(n, "scheduler", s.Scheduler, "cannot schedule the port of a switch; there are %s", strings.Join(switchSchedulers, ", "))
	case s.Link.Line != 0 || s.Link.Delay != 0 || s.Link.Loss != 0:
		r.fail(n, "ovs", "", "there is no line behind a switch; leave link.line, delay and loss out")
	case len(s.Groups) > 0:
		r.fail(n, "groups", "", "a port's queues have no groups; leave them out")
	}
}

// checked is the policy as it is checked: a queue without a match is one that
// hosts name, so there may be several.
func (w *Switch) checked() policy.Policy {
	p := w.Policy.Asked()
	p.Queues = w.Numbered()
	return p
}

// Numbered are the port's queues by the numbers that OpenFlow gives them, which are
// their places.
func (w *Switch) Numbered() []policy.Queue {
	list := slices.Clone(w.Policy.Queues)
	for i := range list {
		list[i].Match = []classify.Match{{Queue: classify.Given(uint16(i))}}
	}
	return list
}

// hostQueue reads the queue of a host.
func (r *reader) hostQueue(dst *string, s *Scenario) field {
	return func(n ast.Node, path string) {
		v, ok := r.scalar(n, path, "a queue's name")
		if !ok {
			return
		}
		var names []string
		for _, q := range s.OVS.Policy.Queues {
			names = append(names, q.Name)
		}
		switch {
		case len(names) == 0:
			r.fail(n, path, v, "the port has no queues; give them under ovs, or leave it out")
		case !slices.Contains(names, v):
			r.unknown(n, path, "queue", v, names)
		}
		*dst = v
	}
}

// Rest is the queue of hosts that name none: the first without a match that no
// host names, else the last; -1 if there are none.
func (s *Scenario) Rest() int {
	queues := s.OVS.Policy.Queues
	for i, q := range queues {
		named := slices.ContainsFunc(s.Workloads, func(w Workload) bool { return w.Queue == q.Name })
		if len(q.Match) == 0 && !named {
			return i
		}
	}
	return len(queues) - 1
}

// portQueue is a flow's queue at the port of a switch, -1 if it has none.
func (s *Scenario) portQueue(f Flow) int {
	queues := s.OVS.Policy.Queues
	var rules []policy.Queue
	for _, q := range queues {
		if len(q.Match) > 0 {
			rules = append(rules, q)
		}
	}
	name := s.Workloads[f.Workload].Queue
	if i := classify.QueueOf(policy.MatchesOf(append(rules, policy.Queue{})), f.Packet()); i < len(rules) {
		name = rules[i].Name
	}
	if name == "" {
		return s.Rest()
	}
	return slices.IndexFunc(queues, func(q policy.Queue) bool { return q.Name == name })
}

// QueueName is the name of a flow's queue where its workload has that policy, ""
// if there is none.
func (s *Scenario) QueueName(p Policy, f Flow) string {
	q := p.QueueOf(f)
	if s.OVS != nil {
		p, q = s.OVS.Policy, s.portQueue(f)
	}
	if q < 0 {
		return ""
	}
	return p.Queues[q].Name
}

// ideals divides the link as its discipline does. Where that says nothing of the
// flows of one queue, they get parts of it in proportion to what they want, as a
// FIFO that is too full gives them.
func (w *Switch) ideals(s *Scenario, flows []Flow, st *Stretch) {
	st.Flows = make([]float64, len(flows))
	for i := range st.Flows {
		st.Flows[i] = math.NaN()
	}
	port := w.Policy
	port.Queues = w.Numbered() // so that the rest is the port's
	shares := port.insideOf(float64(s.Link.Capacity()), flows, *st, func(f Flow) int { return max(0, s.portQueue(f)) }, st.Flows)
	want := make([]float64, len(shares))
	each := func(visit func(i, q int, f Flow, d float64)) {
		for i, f := range flows {
			d := float64(min(f.demand(), s.Link.Capacity()))
			if d > 0 && f.From <= st.From && f.To >= st.To {
				visit(i, max(0, s.portQueue(f)), f, d)
			}
		}
	}
	each(func(_, q int, _ Flow, d float64) { want[q] += d })
	st.Ideal = make([]float64, len(s.Workloads))
	each(func(i, q int, f Flow, d float64) {
		part := st.Flows[i]
		if math.IsNaN(part) {
			part = shares[q] * d / want[q]
		}
		st.Ideal[f.Workload] += part
	})
	st.Queues = make([][]float64, len(s.Workloads))
}
