// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
)

// hostName is the name of class 0 in messages.
const hostName = "host"

// Workload describes one workload, or one group of workloads, to Build.
type Workload struct {
	Key    string // identity, see discover.Workload; a group's is GroupKey of its name
	Name   string // for people
	Policy policy.Policy
	Ports  []Port // on this host; Build fills in Class
	// Group says that this is a group: it has no packets of its own. Of its policy
	// weight, min and max count. Its members name it in their Policy.Group.
	Group bool
}

// Refusal is something of one workload that a State does not hold. The rest of
// the workload is in the State all the same.
type Refusal struct {
	Key, Name string
	// Err names the workload, the mistake and the remedy; errors.As finds a
	// *admission.Refused or a *invalid.Error in it where a policy is the reason.
	Err error
}

// Build turns a link and its workloads into the State that is wanted. Numbers
// comes from Number. The order of the workloads is their seniority: where the
// mins do not fit together, or two claim the same device, the earlier one has it.
// A group may stand anywhere among them; where it asks for a min of its own, its
// members' turn comes after it.
//
// No mistake in one workload takes the others down. What a workload cannot have
// is left out and returned as a Refusal: a min without room, or above its max,
// leaves it with the rest of its policy, and so does a mistake in its queues; a
// policy that is wrong in itself, with the default policy; one in a group that is
// not there, without a group; a workload without a number, in the host's class. So
// the State can always be held, and the error is only ever about the link.
//
// A group's min in the State is the rate that the group reserves on the link: its own
// min, which bounds the sum of its members' mins, or, if it has none, that sum.
//
// The host is class 0 with the default policy, unless a workload with HostKey
// brings another.
func Build(link Link, workloads []Workload, numbers map[string]ClassID) (State, []Refusal, error) {
	if err := link.Check(); err != nil {
		return State{}, nil, err
	}
	b := builder{
		state:   State{Link: link},
		numbers: numbers,
		classes: map[ClassID]Workload{},
		ports:   map[Port]Workload{},
		groups:  map[string]*group{},
	}
	b.addGroups(workloads)
	for _, w := range workloads {
		switch g := b.groups[w.Policy.Group]; {
		case w.Group:
			b.place(b.groups[w.Name])
		case g != nil && !g.placed:
			g.waiting = append(g.waiting, w)
		default:
			b.add(w)
		}
	}
	if _, ok := b.classes[0]; !ok {
		b.addClass(0, Workload{Key: HostKey, Name: hostName, Policy: policy.Default()})
	}
	b.finishGroups()
	slices.SortFunc(b.state.Classes, func(x, y Class) int { return cmp.Compare(x.ID, y.ID) })
	slices.SortFunc(b.state.Ports, byPlace)
	return b.state, b.refusals, nil
}

// Check reports the first mistake in the link as an error that names it.
func (l Link) Check() error {
	refuse := func(field, value, msg, remedy string) error {
		return fmt.Errorf("link %s: %w", l.Name(), &invalid.Error{Field: field, Value: value, Msg: msg, Remedy: remedy})
	}
	if l.Device == "" {
		return &invalid.Error{Field: "device", Msg: "a link without a device", Remedy: "name one, such as eth0"}
	}
	if l.Capacity == 0 {
		return refuse("bandwidth", "", "capacity is not known", "set the link's bandwidth, such as 100mbit")
	}
	if err := (policy.Amount{Rate: l.Capacity}).Check(); err != nil {
		return fmt.Errorf("link %s: %w", l.Name(), invalid.InField("bandwidth", err))
	}
	if !(l.Reserve > 0 && l.Reserve <= 1) {
		return refuse("reservable", fmt.Sprint(l.Reserve), "the share that mins may take is above 0 and at most 1", "write 1 for the whole link")
	}
	if !slices.Contains(Schedulers, l.Scheduler) {
		return refuse("scheduler", l.Scheduler, "no such scheduler", "write one of "+strings.Join(Schedulers, ", "))
	}
	if l.Favour != FavourNeither && !slices.Contains(Favours, l.Favour) {
		return refuse("favour", l.Favour, "a link cannot favour that", "write one of "+strings.Join(Favours, ", "))
	}
	if l.Favour != FavourNeither && l.Scheduler != SchedulerFair {
		return refuse("favour", l.Favour, "only the scheduler fair has batches of two sizes", "leave favour out, or set the link's scheduler to "+SchedulerFair)
	}
	return nil
}

// builder is a State while it is being built.
type builder struct {
	state    State
	numbers  map[string]ClassID
	classes  map[ClassID]Workload // whose number it is
	ports    map[Port]Workload    // whose device it is, by Port.Place
	groups   map[string]*group    // by name
	floors   []policy.Floor       // mins that the link has admitted so far
	refusals []Refusal
}

func (b *builder) add(w Workload) {
	id, ok := b.number(w, "its packets go with the host's; stop other workloads")
	if !ok {
		return
	}
	b.addClass(id, w)
	for _, p := range w.Ports {
		b.addPort(id, w, p)
	}
}

// number returns the class number of a workload or group, if it can have one.
func (b *builder) number(w Workload, otherwise string) (ClassID, bool) {
	id, ok := b.numbers[w.Key]
	if w.Key == HostKey {
		id, ok = 0, true
	}
	if !ok || id >= MaxClasses || (id == 0 && w.Key != HostKey) {
		b.refuse(w, fmt.Errorf("%s: all class numbers are taken, %s", w.Name, otherwise))
		return 0, false
	}
	if owner, taken := b.classes[id]; taken {
		b.refuse(w, fmt.Errorf("%s: class %d belongs to %s already; give each workload a key of its own", w.Name, id, owner.Name))
		return 0, false
	}
	b.classes[id] = w
	return id, true
}

// addClass resolves the workload's policy on this link, or as much of it as the
// link can hold.
func (b *builder) addClass(id ClassID, w Workload) {
	p, sharer := b.sharer(w)
	g := b.groupOf(w)
	ask := policy.Floor{Name: w.Name, Min: sharer.Min}
	if err := b.admit(ask, g); err != nil {
		b.refuse(w, reservationOf(p, err, b.state.Link))
		ask.Min, p = 0, withoutReservations(p)
	}
	b.hold(ask, g)
	class := Class{
		ID: id, Name: w.Name, Weight: sharer.Weight, Min: ask.Min, Max: sharer.Max,
		Limit:      Limit{Packets: p.LimitPackets, Bytes: p.LimitBytes},
		Discipline: p.Discipline.OrDefault(), Queues: queues(p, b.state.Link), DSCP: p.DSCP,
		Isolation: p.Isolation,
	}
	class.Burst = b.burst(w, p)
	class.Reserve, class.Interval = b.state.Link.paced(p.Reserve)
	class.AQM = aqmOf(p.AQM, class.Discipline)
	if p.AQM == (discipline.AQM{}) {
		class.AQM = class.AQM.forPacing(class.Interval)
	}
	if g != nil {
		class.Parent = g.class.ID
	}
	b.state.Classes = append(b.state.Classes, class)
}

// burst returns the workload's burst, which only the scheduler fair has.
func (b *builder) burst(w Workload, p policy.Policy) uint64 {
	link := b.state.Link
	if p.Burst == 0 || link.Scheduler == SchedulerFair {
		return uint64(p.Burst)
	}
	b.refuse(w, fmt.Errorf("%s: %w", w.Name, &invalid.Error{Field: "burst", Value: p.Burst.String(),
		Msg:    fmt.Sprintf("scheduler %s of link %s has no bursts", link.Scheduler, link.Device),
		Remedy: "set the link's scheduler to " + SchedulerFair}))
	return 0
}

// aqmOf returns what an AQM is in a discipline.
func aqmOf(a discipline.AQM, d discipline.Name) AQM {
	target, interval := a.Of(d)
	if target == 0 {
		return AQM{}
	}
	return AQM{Target: target, Interval: interval, ECN: a.ECN, CEThreshold: a.CEThreshold, ACKFilter: a.ACKFilter}
}

// sharer returns the workload's policy without its mistakes, and what it is on the link.
func (b *builder) sharer(w Workload) (policy.Policy, policy.Sharer) {
	return b.state.Link.sharer(w.Policy, func(err error) { b.refuse(w, fmt.Errorf("%s: %w", w.Name, err)) })
}

// sharer returns a policy without its mistakes, each of which it tells to wrong, and what the
// workload is on the link.
func (l Link) sharer(p policy.Policy, wrong func(error)) (policy.Policy, policy.Sharer) {
	for {
		sharer, err := p.SharerOn(l.Capacity, l.Overhead())
		if err == nil {
			return p, sharer
		}
		wrong(err)
		p = withoutMistake(p, err)
	}
}

// Asked returns the min that a policy asks the link to admit: what it takes on the wire
// without its mistakes, as Build counts it.
func (l Link) Asked(p policy.Policy) policy.Rate {
	_, sharer := l.sharer(p, func(error) {})
	return sharer.Min
}

// withoutMistake returns p without its wrong field if it can do without it,
// else the default.
func withoutMistake(p policy.Policy, err error) policy.Policy {
	var mistake *invalid.Error
	errors.As(err, &mistake)
	switch mistake.Root() {
	case "min":
		p.Min = policy.Amount{}
	case "reserve":
		p.Reserve = policy.Amount{}
	case "burst":
		p.Burst = 0
	case "ingress":
		p.Ingress = nil
	case "quota":
		p.Quota = nil
	case "zones":
		p.Zones = nil
	case "when":
		p.When = nil
	case "discipline", "queues":
		p.Discipline, p.Queues = "", nil
	case "aqm":
		p.AQM = discipline.AQM{}
	case "isolation":
		p.Isolation = discipline.ByFlow
	case "dscp":
		p.DSCP = nil
	default:
		return policy.Default()
	}
	return p
}

// queues returns the policy's queues with their rates resolved.
func queues(p policy.Policy, l Link) []Queue {
	var list []Queue
	capacity := l.Capacity
	for _, q := range p.Queues {
		queue := Queue{Name: q.Name, Rate: q.Rate.Of(capacity), Match: q.Match, DSCP: q.DSCP, LimitPackets: q.LimitPackets, Priority: q.Priority}
		if queue.Reserve, queue.Interval = l.paced(q.Reserve); !q.Max.None() {
			queue.Interval = IntervalOf(q.Max.Of(capacity))
		}
		if p.Discipline.Weighs() {
			queue.Weight = max(q.Min.Of(capacity), policy.WireOf(queue.Reserve, l.Overhead()), queue.Rate, 1)
		}
		list = append(list, queue)
	}
	return list
}

func (b *builder) addPort(id ClassID, w Workload, p Port) {
	if owner, taken := b.ports[p.Place()]; taken {
		if owner.Key != w.Key {
			b.refuse(w, fmt.Errorf("%s: %s %s belongs to %s already; detach one of them", w.Name, p.kind(), p, owner.Name))
		}
		return
	}
	p.Class = id
	b.ports[p.Place()] = w
	b.state.Ports = append(b.state.Ports, p)
}

func (b *builder) refuse(w Workload, err error) {
	b.refusals = append(b.refusals, Refusal{Key: w.Key, Name: w.Name, Err: err})
}
