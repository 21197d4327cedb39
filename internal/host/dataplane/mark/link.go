// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/mark/group"
)

// What the program at a link knows of the workloads that are cgroups: their DSCP,
// which could not be written before, and which sockets are theirs.

// late is a class whose packets no port has seen: that of a cgroup. Its rules are tried, and its
// DSCP and its hash written, at the link.
type late struct {
	class   plan.ClassID
	ports   bool // it has ports, too
	marking Marking
}

// lateOf lists the classes of cgroups that have rules, or a DSCP or a hash to write.
func lateOf(s plan.State) []late {
	var list []late
	for _, port := range s.Ports {
		if port.Cgroup == "" || port.Sockets {
			continue
		}
		class, _ := s.Class(port.Class)
		l := late{port.Class, false, MarkingOf(class)}
		if l.marking.empty() {
			continue
		}
		l.ports = slices.ContainsFunc(s.Ports, func(p plan.Port) bool { return p.Class == port.Class && p.Cgroup == "" })
		list = append(list, l)
	}
	return list
}

// serveLate adds what classes of cgroups ask for. A class whose rules are wrong has been refused
// before.
func (p *program) serveLate(classes []late) {
	p.late = map[uint32]classifyWeirLateClass{}
	slices.SortStableFunc(classes, func(a, b late) int { return cmp.Compare(a.class, b.class) })
	for _, l := range classes {
		rules, err := l.marking.rules()
		if _, known := p.late[uint32(l.class)]; err != nil || known { // a class may have several cgroups
			continue
		}
		c := classifyWeirLateClass{First: uint32(len(p.rules)), Count: uint32(len(rules.List)), Fallback: uint32(rules.Default),
			Hosts: l.marking.Hosts, Dscp: l.marking.codepoints()}
		if l.ports {
			c.Ports = 1
		}
		for _, rule := range rules.List {
			p.rules = append(p.rules, kernelRule(rule))
		}
		p.late[uint32(l.class)] = c
	}
	p.place.Late, p.place.Total = uint32(len(p.late)), uint32(len(p.rules))
	p.place.Digest = p.digest()
}

// owner says which lane packets of a cgroup's sockets have (plan.Lane): the class, and the queue
// for what fits no rule. It is an element of Sockets.Owners.
type owner struct {
	ID   uint64
	Lane uint32
}

// owned is a cgroup of a workload.
type owned struct {
	id     uint64
	levels uint32 // levelBits
	class  plan.ClassID
	queue  int
	marked bool // by a program there, and not by ports
}

// ownersOf finds the cgroups of a state. Those that are gone are left out, and so
// are those of version 1, which Attach has refused.
func ownersOf(s plan.State) ([]owned, error) {
	var list []owned
	var failed error
	for _, port := range s.Ports {
		if port.Cgroup == "" {
			continue
		}
		folder, err := group.Open(port.Cgroup)
		switch {
		case errors.Is(err, dataplane.ErrNoDevice), errors.Is(err, dataplane.ErrNoSupport):
			continue
		case err != nil:
			failed = errors.Join(failed, err)
			continue
		}
		folder.Close()
		class, _ := s.Class(port.Class)
		rules, err := MarkingOf(class).rules()
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		list = append(list, owned{folder.ID, group.LevelBit(port.Cgroup), port.Class, rules.Default, !port.Sockets})
	}
	// Of two workloads with one cgroup, the one that is known by it has it.
	marked := slices.DeleteFunc(slices.Clone(list), func(o owned) bool { return !o.marked })
	return append(slices.DeleteFunc(list, func(o owned) bool { return o.marked }), marked...), failed
}

// Sockets says to which class the packets of local sockets belong: that of the cgroup
// that the socket was made in, whatever they carry.
type Sockets struct {
	Levels uint32            // bit i = a cgroup of Owners is i below the top
	Sealed bool              // a workload is known by its cgroup alone, so that what stands above links seals its packets
	Owners map[uint64]uint32 // lanes by the ids of cgroups
}

// Sockets returns what a link with this state has to know of local sockets. Cgroups that
// are gone are left out.
func (m *Marker) Sockets(state plan.State) (Sockets, error) {
	s := Sockets{Owners: map[uint64]uint32{}}
	groups, err := ownersOf(state)
	gone, failed := remnants{m}.of(state)
	err = errors.Join(err, failed)
	for _, o := range slices.Concat(fitting(gone, mostOwners-len(groups)), groups) {
		s.Owners[o.id] = plan.Lane(o.class, o.queue)
		s.Levels |= o.levels
		s.Sealed = s.Sealed || o.marked
	}
	return s, err
}

// mostOwners is WEIR_OWNERS in bpf/weir.h.
const mostOwners = 4096

// fitting returns as many of the cgroups that are gone as there is room for beside those of the
// plan: of each workload as many as of the others, and its oldest ones. A container that starts
// again and again, and has others keep its sockets, may keep neither a workload out of the table
// nor what is left of another one.
func fitting(gone []owned, room int) []owned {
	slices.SortFunc(gone, func(a, b owned) int { return cmp.Compare(a.id, b.id) })
	place, of := map[uint64]int{}, map[plan.ClassID]int{} // among those of its class; how many a class has
	for _, o := range gone {
		place[o.id] = of[o.class]
		of[o.class]++
	}
	slices.SortStableFunc(gone, func(a, b owned) int { return cmp.Compare(place[a.id], place[b.id]) })
	return gone[:min(len(gone), max(room, 0))]
}

// reown adds the cgroups whose sockets are to be recognised.
func (p *program) reown(s Sockets) {
	p.place.Levels = s.Levels
	for _, id := range slices.Sorted(maps.Keys(s.Owners)) {
		p.owner = append(p.owner, owner{id, s.Owners[id]})
	}
	p.place.Digest = p.digest()
}
