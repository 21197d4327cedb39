// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	"weir/internal/policy"
)

// hostName is what people call class 0.
const hostName = "host"

// Workload is what Build has to know of a workload.
type Workload struct {
	Key    string // identity, see discover.Workload
	Name   string // for people
	Policy policy.Policy
	Ports  []Port // on this host; Build fills in Class
}

// Refusal is something of one workload that a State does not hold. The rest of
// the workload is in the State all the same.
type Refusal struct {
	Key, Name string
	// Err names the workload, what is wrong and the remedy; errors.As finds a
	// *policy.Refused or a *policy.Error in it where a policy is the reason.
	Err error
}

// Build turns a link and its workloads into the State that is wanted. Numbers
// comes from Number. The order of the workloads is their seniority: where the
// mins do not fit together, or two claim the same device, the earlier one has it.
//
// No mistake in one workload takes the others down. What a workload cannot have
// is left out and returned as a Refusal: a min without room, or above its max,
// leaves it with the rest of its policy; a policy that is wrong in itself, with
// the default policy; a workload without a number, in the host's class. So the
// State can always be held, and the error is only ever about the link.
//
// The host is class 0 with the default policy, unless a workload with HostKey
// brings another.
func Build(link Link, workloads []Workload, numbers map[string]ClassID) (State, []Refusal, error) {
	if err := link.Check(); err != nil {
		return State{}, nil, err
	}
	b := builder{
		state:   State{Link: link},
		classes: map[ClassID]Workload{},
		ports:   map[int]Workload{},
	}
	for _, w := range workloads {
		b.add(w, numbers)
	}
	if _, ok := b.classes[0]; !ok {
		b.addClass(0, Workload{Key: HostKey, Name: hostName, Policy: policy.Default()})
	}
	slices.SortFunc(b.state.Classes, func(x, y Class) int { return cmp.Compare(x.ID, y.ID) })
	slices.SortFunc(b.state.Ports, func(x, y Port) int { return cmp.Compare(x.Ifindex, y.Ifindex) })
	return b.state, b.refusals, nil
}

// Check reports the first mistake in the link as an error that names it.
func (l Link) Check() error {
	refuse := func(field, value, msg, remedy string) error {
		return fmt.Errorf("link %s: %w", l.Device, &policy.Error{Field: field, Value: value, Msg: msg, Remedy: remedy})
	}
	if l.Device == "" {
		return &policy.Error{Field: "device", Msg: "a link without a device", Remedy: "name one, such as eth0"}
	}
	if l.Capacity == 0 {
		return refuse("bandwidth", "", "capacity is not known", "set the link's bandwidth, such as 100mbit")
	}
	if err := (policy.Amount{Rate: l.Capacity}).Check(); err != nil {
		return fmt.Errorf("link %s: %w", l.Device, policy.InField("bandwidth", err))
	}
	if !(l.Reserve > 0 && l.Reserve <= 1) {
		return refuse("reservable", fmt.Sprint(l.Reserve), "the share that mins may take is above 0 and at most 1", "write 1 for the whole link")
	}
	if l.Scheduler != SchedulerFair && l.Scheduler != SchedulerQcon {
		return refuse("scheduler", l.Scheduler, "no such scheduler", fmt.Sprintf("write %s or %s", SchedulerFair, SchedulerQcon))
	}
	return nil
}

// builder is a State while it is being built.
type builder struct {
	state    State
	classes  map[ClassID]Workload // whose number it is
	ports    map[int]Workload     // whose device it is, by ifindex
	floors   []policy.Floor       // mins admitted so far
	refusals []Refusal
}

func (b *builder) add(w Workload, numbers map[string]ClassID) {
	id, ok := numbers[w.Key]
	if w.Key == HostKey {
		id, ok = 0, true
	}
	if !ok || id >= MaxClasses || (id == 0 && w.Key != HostKey) {
		b.refuse(w, fmt.Errorf("%s: all %d class numbers are taken, its packets go with the host's; stop other workloads", w.Name, MaxClasses-1))
		return
	}
	if owner, taken := b.classes[id]; taken {
		b.refuse(w, fmt.Errorf("%s: class %d belongs to %s already; give each workload a key of its own", w.Name, id, owner.Name))
		return
	}
	b.addClass(id, w)
	for _, p := range w.Ports {
		b.addPort(id, w, p)
	}
}

// addClass resolves the workload's policy on this link, or as much of it as the
// link can hold.
func (b *builder) addClass(id ClassID, w Workload) {
	claim, err := w.Policy.Claim(b.state.Link.Capacity)
	if err != nil {
		b.refuse(w, fmt.Errorf("%s: %w", w.Name, err))
		w.Policy = withoutMistake(w.Policy)
		claim, _ = w.Policy.Claim(b.state.Link.Capacity)
	}
	ask := policy.Floor{Name: w.Name, Min: claim.Min}
	if err := b.state.Link.Admission().Admit(ask, b.floors); err != nil {
		b.refuse(w, err)
		ask.Min = 0
	}
	b.floors = append(b.floors, ask)
	b.classes[id] = w
	b.state.Classes = append(b.state.Classes, Class{
		ID: id, Name: w.Name, Weight: claim.Weight, Min: ask.Min, Max: claim.Max,
		Limit: Limit{Packets: w.Policy.LimitPackets, Bytes: w.Policy.LimitBytes},
	})
}

// withoutMistake is p without its min if that makes it right, else the default.
func withoutMistake(p policy.Policy) policy.Policy {
	p.Min = policy.Amount{}
	if p.Check() != nil {
		return policy.Default()
	}
	return p
}

func (b *builder) addPort(id ClassID, w Workload, p Port) {
	if owner, taken := b.ports[p.Ifindex]; taken {
		if owner.Key != w.Key {
			b.refuse(w, fmt.Errorf("%s: device %s belongs to %s already; detach one of them", w.Name, p.Device, owner.Name))
		}
		return
	}
	p.Class = id
	b.ports[p.Ifindex] = w
	b.state.Ports = append(b.state.Ports, p)
}

func (b *builder) refuse(w Workload, err error) {
	b.refusals = append(b.refusals, Refusal{Key: w.Key, Name: w.Name, Err: err})
}
