// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/lab/zones"
)

// Defaults of everything that a file may leave out.
const (
	DefaultScheduler = plan.SchedulerFair
	DefaultSettle    = time.Second
	DefaultPhase     = 10 * time.Second
	DefaultMTU       = 1500
	DefaultWeight    = 1
	DefaultUDPSize   = 1200
	DefaultPingSize  = 56
	DefaultRRSize    = 1
	// DefaultPing is no multiple of any scheduler's period, so that pings do
	// not keep meeting the same moment of it.
	DefaultPing = 21300 * time.Microsecond
)

// MaxWorkloads is how many workloads a scenario can have: each is a network
// namespace with programs of its own.
const MaxWorkloads = 200

// Schedulers are the names that a scenario can give: Weir's own first, then the
// kernel's, as internal/lab/peers sets them up.
var Schedulers = append(slices.Clone(plan.Schedulers), "none", "root-pfifo", "bpf-null", "pfifo", "fq_codel", "fq", "sfq", "drr", "htb", "htb-tuned", "htb-fixed", "cake", OVSHTB)

// LimitedGSO behind the name of one of the kernel's schedulers has packets that are too long for
// the link split before it, as Weir splits them.
const LimitedGSO = "+gso"

// IsScheduler says whether a scenario can name a scheduler.
func IsScheduler(name string) bool {
	base, limited := strings.CutSuffix(name, LimitedGSO)
	return slices.Contains(Schedulers, base) && !(limited && (slices.Contains(plan.Schedulers, base) || base == OVSHTB))
}

// OVSHTB is Open vSwitch's own scheduling of a port, its QoS type linux-htb.
const OVSHTB = "ovs-htb"

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// Parse reads a scenario file. The error holds one line for each mistake, each
// with file, line and column.
func Parse(file string, data []byte) (*Scenario, error) {
	r := &reader{file: file}
	s := &Scenario{
		File:      file,
		Name:      strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)),
		Link:      Link{MTU: DefaultMTU},
		Scheduler: DefaultScheduler,
		Settle:    DefaultSettle,
	}
	if root := r.document(data); root != nil {
		r.scenario(root, s)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// scenario reads the top level. Link and workloads come before whatever refers
// to them, in whichever order the file has them.
func (r *reader) scenario(root ast.Node, s *Scenario) {
	later := map[string]ast.Node{}
	keep := func(key string) field {
		return func(n ast.Node, _ string) { later[key] = n }
	}
	r.fields(root, "", "a mapping with link, workloads and phases", map[string]field{
		"name":      r.str(&s.Name, "a title"),
		"scheduler": r.scheduler(&s.Scheduler),
		"beside":    func(n ast.Node, path string) { s.Beside = r.each(n, path, "[qcon, htb]", r.scheduler) },
		"settle":    r.duration(&s.Settle, 0),
		"groups":    keep("groups"), "ovs": keep("ovs"),
		"link": keep("link"), "workloads": keep("workloads"), "phases": keep("phases"),
		"expect": keep("expect"), "paper": keep("paper"), "cost": keep("cost"), "timing": keep("timing"), "control": keep("control"),
	})
	if n := later["link"]; n != nil {
		r.link(n, s)
	} else if len(r.problems) == 0 && later["cost"] == nil && later["timing"] == nil {
		r.fail(root, "link", "", "missing; write link: {bandwidth: 100mbit}")
	}
	if n := later["cost"]; n != nil {
		r.cost(n, s)
	}
	if n := later["timing"]; n != nil {
		r.timing(n, s)
	}
	if n := later["groups"]; n != nil {
		r.groups(n, s)
		if s.Scheduler == plan.SchedulerQcon || s.Scheduler == plan.SchedulerAncs {
			r.fail(n, "groups", "", "scheduler %s has no groups, each workload counts for itself; write scheduler: %s", s.Scheduler, plan.SchedulerFair)
		}
	}
	if n := later["ovs"]; n != nil {
		r.ovs(n, s)
	} else if s.Scheduler == OVSHTB {
		r.fail(root, "scheduler", s.Scheduler, "schedules a port of Open vSwitch; give the topology, such as ovs: {discipline: cbwfq, queues: {a: {min: 1mbit}}}")
	}
	if n := later["control"]; n != nil {
		r.control(n, s)
	}
	if n := later["workloads"]; n != nil {
		r.workloads(n, s)
	} else if s.Cost == nil && s.Timing == nil && len(r.problems) == 0 {
		r.fail(root, "workloads", "", "missing; write workloads: {c1: {traffic: [{tcp: {}}]}}")
	}
	if n := later["phases"]; n != nil {
		r.phases(n, s)
	} else {
		s.Phases = []Phase{{For: DefaultPhase}}
	}
	if len(r.problems) > 0 {
		return // what follows would only complain about the same again
	}
	if n := later["expect"]; n != nil {
		r.expect(n, s)
	}
	if n := later["paper"]; n != nil {
		r.paper(n, s)
	}
	if s.Cost == nil && s.Timing == nil {
		r.check(s, root, later)
	}
}

func (r *reader) link(n ast.Node, s *Scenario) {
	l := &s.Link
	direction := string(policy.Egress)
	favour, behind := plan.Favours[0], ""
	before := len(r.problems)
	r.fields(n, "link", "a mapping such as {bandwidth: 100mbit}", map[string]field{
		"bandwidth": r.positiveRate(&l.Bandwidth, 0),
		"line":      r.line(l),
		"delay":     r.duration(&l.Delay, 0),
		"jitter":    r.duration(&l.Jitter, 0),
		"loss":      r.share(&l.Loss, 1),
		"mtu":       r.count(&l.MTU, 576, 9000, "a packet size in bytes"),
		"offload":   r.toggle(&l.Offload),
		"ecn":       r.toggle(&l.ECN),
		"favour":    r.word(&favour, "thing to favour", plan.Favours),
		"direction": r.word(&direction, "direction", []string{string(policy.Egress), string(policy.Ingress)}),
		"zones":     func(n ast.Node, _ string) { behind = n.String() },
	})
	var err error
	if l.Zones, err = zones.Read(behind, l.Bandwidth); err != nil {
		r.fail(n, "link.zones", "", "%v", err)
	}
	if l.Jitter > l.Delay {
		r.fail(n, "link.jitter", l.Jitter.String(), "must be at most the delay, %v, which it varies", l.Delay)
	}
	l.Ingress = direction == string(policy.Ingress)
	l.Favour = plan.Favour(favour)
	if l.Bandwidth == 0 && len(r.problems) == before {
		r.fail(n, "link.bandwidth", "", "missing; write bandwidth: 100mbit")
	}
}

// line is the rate of the wire behind the link, or none.
func (r *reader) line(l *Link) field {
	return func(n ast.Node, path string) {
		if text(n) == "none" {
			l.Line = 0
			return
		}
		r.positiveRate(&l.Line, 0)(n, path)
	}
}

func (r *reader) workloads(n ast.Node, s *Scenario) {
	list, ok := r.entries(n, "workloads", "a mapping of names, such as {c1: {weight: 2}}")
	if !ok {
		return
	}
	if len(list) == 0 {
		r.fail(n, "workloads", "", "needs at least one workload")
	}
	if len(list) > MaxWorkloads {
		r.fail(n, "workloads", "", "%d workloads; at most %d", len(list), MaxWorkloads)
		return
	}
	for _, e := range list {
		name, path := keyText(e.Key), join("workloads", keyText(e.Key))
		if !validName.MatchString(name) {
			r.fail(e.Key, path, "", "a name is made of letters, digits, dot, dash and underscore, at most 63")
			continue
		}
		s.Workloads = append(s.Workloads, r.workload(e.Value, path, name, s))
	}
}

// The kinds of workloads.
const (
	kindNetns = "netns" // behind a veth, like a container
	kindTap   = "tap"
)

// Taps are the numbers of the workloads of kind tap.
func (s *Scenario) Taps() []int {
	var list []int
	for i, w := range s.Workloads {
		if w.Tap {
			list = append(list, i)
		}
	}
	return list
}

func (r *reader) workload(n ast.Node, path, name string, s *Scenario) Workload {
	w := Workload{Name: name, Policy: Policy{Weight: DefaultWeight}}
	if _, ok := n.(*ast.NullNode); ok {
		return w // "c1:" with nothing behind it: all defaults
	}
	var change WorkloadChange
	known := r.policyFields(&change, s)
	kind := kindNetns
	known["zone"] = r.word(&w.Zone, "zone", zones.Names(s.Link.Zones))
	known["kind"] = r.word(&kind, "kind", []string{kindNetns, kindTap})
	if s.OVS != nil {
		known = map[string]field{"queue": r.hostQueue(&w.Queue, s)}
	}
	known["traffic"] = func(n ast.Node, path string) { w.Traffic = r.trafficList(n, path, s) }
	r.fields(n, path, "a mapping such as {weight: 2, traffic: [{tcp: {}}]}", known)
	change.apply(&w.Policy)
	w.Tap = kind == kindTap
	return w
}

// insideFields are the keys of a policy that are read and named as in weir.yaml.
var insideFields = []string{"discipline", "queues", "aqm", "isolation", "dscp", "group", "burst"}

// policyFields read what a workload and a phase's change have in common.
func (r *reader) policyFields(c *WorkloadChange, s *Scenario) map[string]field {
	known := r.rateFields(c, s)
	known["reserve"] = func(n ast.Node, path string) { c.Reserve = r.bound(n, path, s) }
	for _, key := range insideFields {
		known[key] = func(n ast.Node, path string) {
			r.insideField(&c.Inside, key, n, path, s)
		}
	}
	return known
}

func (r *reader) insideField(layer *policy.Change, key string, n ast.Node, path string, s *Scenario) {
	for _, p := range config.ReadField(layer, key, n, path) {
		e := &Error{File: r.file, Line: p.Line, Col: p.Column, Field: p.Field, Problem: p.Msg}
		if m := p.Mistake(); m != nil {
			e.Value, e.Problem = m.Value, problem(m)
		}
		r.problems = append(r.problems, e)
	}
	if key == "queues" && layer.Gives(key) {
		resolve(layer.To().Queues, s.Link.Bandwidth)
	}
}

// resolve turns shares of the link into rates.
func resolve(queues []policy.Queue, link policy.Rate) {
	for i := range queues {
		q := &queues[i]
		q.Rate, q.Min = policy.Amount{Rate: q.Rate.Of(link)}, policy.Amount{Rate: q.Min.Of(link)}
		q.Reserve = policy.Amount{Rate: q.Reserve.Of(link)}
	}
}

// rateFields read what groups have too.
func (r *reader) rateFields(c *WorkloadChange, s *Scenario) map[string]field {
	return map[string]field{
		"weight": func(n ast.Node, path string) { c.Weight = r.weight(n, path) },
		"min":    func(n ast.Node, path string) { c.Min = r.bound(n, path, s) },
		"max":    func(n ast.Node, path string) { c.Max = r.bound(n, path, s) },
	}
}

// apply makes the change on a policy.
func (c *WorkloadChange) apply(p *Policy) {
	if c.Weight != nil {
		p.Weight = *c.Weight
	}
	if c.Min != nil {
		p.Min = *c.Min
	}
	if c.Max != nil {
		p.Max = *c.Max
	}
	if c.Reserve != nil {
		p.Reserve = *c.Reserve
	}
	inside := c.Inside.Apply(p.Asked())
	p.Discipline, p.Queues, p.AQM, p.DSCP, p.Group, p.Isolation, p.Burst = inside.Discipline, inside.Queues, inside.AQM, inside.DSCP, inside.Group, inside.Isolation, inside.Burst
}
