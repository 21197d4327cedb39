// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/framing"
	"weir/internal/core/policy/quota"
)

// Op says what an Edit does.
type Op string

// The operations.
const (
	AddLink     Op = "add link"
	SetLink     Op = "set link"
	RemoveLink  Op = "remove link"
	AddClass    Op = "add class"
	SetClass    Op = "set class"
	RemoveClass Op = "remove class"
	AddPort     Op = "add port"
	SetPort     Op = "set port" // to another class, or under another name
	RemovePort  Op = "remove port"
)

// Edit is one step from one State to another. It holds the objects that Op
// names: the old one unless it is added, the new one unless it is removed.
type Edit struct {
	Op                 Op
	OldLink, NewLink   *Link
	OldClass, NewClass *Class
	OldPort, NewPort   *Port
	Text               string // the change in words for people
}

// String returns the change in words for people: "add web: weight 3, min 20 Mbit/s".
func (e Edit) String() string { return e.Text }

func linkEdit(from, to Link) Edit {
	switch {
	case from == Link{}:
		return Edit{Op: AddLink, NewLink: &to, Text: fmt.Sprintf("add link %s: %s", to.Name(), listed(to.facts()))}
	case to == Link{}:
		return Edit{Op: RemoveLink, OldLink: &from, Text: "remove link " + from.Name()}
	}
	return Edit{Op: SetLink, OldLink: &from, NewLink: &to, Text: fmt.Sprintf("link %s: %s", from.Name(), differing(from.facts(), to.facts()))}
}

func addClass(c Class, in State) Edit {
	return Edit{Op: AddClass, NewClass: &c, Text: fmt.Sprintf("add %s: %s", c.label(), listed(c.facts(in)))}
}

func setClass(from, to Class, have, want State) Edit {
	before, after := from.facts(have, want), to.facts(want, have)
	if from.Parent != to.Parent {
		tellGroupsApart(before, after, from.Parent, to.Parent)
	}
	return Edit{Op: SetClass, OldClass: &from, NewClass: &to, Text: fmt.Sprintf("%s: %s", from.label(), differing(before, after))}
}

// tellGroupsApart adds the numbers of two groups to their names in the facts of a class that
// goes from one to the other, if the names are the same.
func tellGroupsApart(before, after []fact, from, to ClassID) {
	for i := range min(len(before), len(after)) {
		if b, a := &before[i], &after[i]; b.name == groupFact && b.value == a.value {
			b.value, a.value = fmt.Sprintf("%s (class %d)", b.value, from), fmt.Sprintf("%s (class %d)", a.value, to)
		}
	}
}

func removeClass(c Class) Edit {
	return Edit{Op: RemoveClass, OldClass: &c, Text: "remove " + c.label()}
}

func addPort(p Port, in State) Edit {
	return Edit{Op: AddPort, NewPort: &p, Text: fmt.Sprintf("%s -> %s", p.label(), in.label(p.Class))}
}

func setPort(from, to Port, have, want State) Edit {
	text := fmt.Sprintf("%s: %s -> %s", to.label(), have.label(from.Class), want.label(to.Class))
	switch {
	case from.Class == to.Class:
		text = fmt.Sprintf("%s: is now called %s", from.label(), to.Device)
	case from.Device != to.Device:
		text += fmt.Sprintf(", was called %s", from.Device)
	}
	return Edit{Op: SetPort, OldPort: &from, NewPort: &to, Text: text}
}

func removePort(p Port, in State) Edit {
	return Edit{Op: RemovePort, OldPort: &p, Text: fmt.Sprintf("remove %s of %s", p.label(), in.label(p.Class))}
}

// label returns the name that people call the class by: "web", "group office". Only a
// class that a kernel was found with has no name.
func (c Class) label() string {
	switch {
	case c.Name == "":
		return fmt.Sprintf("class %d", c.ID)
	case c.Group:
		return "group " + c.Name
	}
	return c.Name
}

// label returns the name that people call the port by: "interface veth1a2b", "cgroup
// /sys/fs/cgroup/a".
func (p Port) label() string {
	if p.Sockets {
		return "sockets of cgroup " + p.Cgroup
	}
	if p.Cgroup != "" {
		return "cgroup " + p.Cgroup
	}
	return "interface " + p.Device
}

func (s State) label(id ClassID) string {
	if c, ok := s.Class(id); ok {
		return c.label()
	}
	return fmt.Sprintf("class %d", id)
}

// fact is one property of an object, in words.
type fact struct {
	name, value string
	unset       bool // the value of a workload that did not ask for one
}

// groupFact is the name of the fact that says in which group a class is.
const groupFact = "group"

func (l Link) facts() []fact {
	return append([]fact{
		{"device", l.Device, false},
		{"capacity", l.Capacity.String(), false},
		{"reservable", fmt.Sprintf("%.6g %%", 100*l.Reserve), l.Reserve == 1},
		{"scheduler", l.Scheduler, false},
		{"favour", cmp.Or(l.Favour, Favours[0]), l.Favour == FavourNeither},
		{"overhead", l.Framing.String(), l.Framing == framing.Framing{}},
	}, l.Limit.facts()...)
}

// facts returns the class's properties. Its group's name comes from the last of the states
// that has the group.
func (c Class) facts(in ...State) []fact {
	facts := []fact{
		{"name", c.Name, false},
		{"weight", strconv.FormatUint(uint64(c.Weight), 10), false},
		{"min", orNone(c.Min), c.Min == 0},
		{"max", orNone(c.Max), c.Max == 0},
		{"burst", burstWords(c.Burst), c.Burst == 0},
		{"reserve", orNone(c.Reserve), c.Reserve == 0},
		{"interval", c.Interval.String(), c.Interval == 0},
	}
	if c.Group {
		return facts
	}
	group := "none"
	if c.Parent != 0 {
		group = fmt.Sprintf("class %d", c.Parent)
		for _, s := range slices.Backward(in) {
			if g, ok := s.Class(c.Parent); ok {
				group = cmp.Or(g.Name, group)
			}
		}
	}
	facts = append(facts, fact{groupFact, group, c.Parent == 0})
	facts = append(facts, c.Limit.facts()...)
	return append(facts, c.insideFacts()...)
}

// insideFacts returns the facts about the treatment of the workload's own packets.
func (c Class) insideFacts() []fact {
	orders := c.Discipline.OrDefault()
	var queues []string
	for _, q := range c.Queues {
		queues = append(queues, q.words(orders))
	}
	aqm, dscp := "off", "as it is"
	if c.AQM.Target != 0 {
		aqm = discipline.AQM{Target: c.AQM.Target, Interval: c.AQM.Interval, ECN: c.AQM.ECN, CEThreshold: c.AQM.CEThreshold, ACKFilter: c.AQM.ACKFilter}.Compact()
	}
	if c.DSCP != nil {
		dscp = classify.DSCPName(*c.DSCP)
	}
	return []fact{
		{"discipline", string(orders), orders == discipline.SFQ},
		{"queues", cmp.Or(strings.Join(queues, ", "), "none"), len(queues) == 0},
		{"aqm", aqm, c.AQM == aqmOf(discipline.AQM{}, orders)},
		{"isolation", c.Isolation.Compact(), c.Isolation == discipline.ByFlow},
		{"dscp", dscp, c.DSCP == nil},
	}
}

// words returns the queue with all that is said of it: "voice (rate 1 Mbit/s; udp
// 5001)".
func (q Queue) words(d discipline.Name) string {
	var words []string
	if q.Rate != 0 {
		words = append(words, "rate "+q.Rate.String())
	} else if d.Weighs() && q.Weight > 1 {
		words = append(words, "min "+q.Weight.String())
	}
	if q.Reserve != 0 {
		words = append(words, "reserve "+q.Reserve.String())
	}
	switch {
	case q.Interval != 0 && q.Reserve == 0:
		words = append(words, "max "+policy.Approx(q.Interval.Rate()))
	case q.Interval != 0:
		words = append(words, "interval "+q.Interval.String())
	}
	if q.DSCP != nil {
		words = append(words, "dscp "+classify.DSCPName(*q.DSCP))
	}
	if q.LimitPackets != 0 {
		words = append(words, fmt.Sprintf("limit %d packets", q.LimitPackets))
	}
	for _, m := range q.Match {
		words = append(words, fmt.Sprint(m))
	}
	if len(words) == 0 {
		return q.Name
	}
	return fmt.Sprintf("%s (%s)", q.Name, strings.Join(words, "; "))
}

func (l Limit) facts() []fact {
	packets, bytes := "default", "default"
	if l.Packets != 0 {
		packets = strconv.FormatUint(uint64(l.Packets), 10)
	}
	if l.Bytes != 0 {
		bytes = strconv.FormatUint(l.Bytes, 10)
	}
	return []fact{
		{"limit in packets", packets, l.Packets == 0},
		{"limit in bytes", bytes, l.Bytes == 0},
	}
}

func burstWords(burst uint64) string {
	if burst == 0 {
		return "none"
	}
	return quota.Size(burst).String()
}

func orNone(r policy.Rate) string {
	if r == 0 {
		return "none"
	}
	return r.String()
}

// listed says what was asked for a new object: "weight 3, min 20 Mbit/s". The
// first fact is the object's name, which the reader has just been told.
func listed(facts []fact) string {
	var words []string
	for _, f := range facts[1:] {
		if !f.unset {
			words = append(words, f.name+" "+f.value)
		}
	}
	return strings.Join(words, ", ")
}

// differing says what changes: "weight 1 -> 3, min none -> 20 Mbit/s".
func differing(from, to []fact) string {
	var words []string
	for i, f := range from {
		if f.value != to[i].value {
			words = append(words, fmt.Sprintf("%s %s -> %s", f.name, f.value, to[i].value))
		}
	}
	return strings.Join(words, ", ")
}
