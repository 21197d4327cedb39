// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cgroups "weir/internal/cgroup"
	"weir/internal/dataplane"
	"weir/internal/plan"
)

// What the program at a link knows of the workloads that are cgroups: their DSCP,
// which could not be written before, and which sockets are theirs.

// codepoint is the DSCP that packets with a mark get at the link, keepDSCP for none, and
// above it, by lateHosts bits, Marking.Hosts.
type codepoint struct{ Mark, DSCP uint32 }

// lateHosts is WEIR_LATE_HOSTS in bpf/marking/rule.h.
const lateHosts = 8

// late is a class whose DSCP can only be written where its packets leave: that of
// a cgroup.
type late struct {
	class   plan.ClassID
	marking Marking
}

// lateOf lists the classes of cgroups that have a DSCP or a hash to write.
func lateOf(s plan.State) []late {
	var list []late
	for _, port := range s.Ports {
		class, _ := s.Class(port.Class)
		if l := (late{port.Class, MarkingOf(class)}); port.Cgroup != "" && !port.Sockets && (l.marking.Hosts != 0 || l.marking.codepoints() != (Marking{}).codepoints()) {
			list = append(list, l)
		}
	}
	return list
}

// rewriteLate adds the codepoints of classes that are marked elsewhere.
func (p *program) rewriteLate(mask plan.Mask, classes []late) {
	seen := map[uint32]bool{}
	for _, l := range classes {
		for queue, dscp := range l.marking.codepoints() {
			mark := mask.Value(l.class, queue)
			if (dscp != keepDSCP || l.marking.Hosts != 0) && !seen[mark] { // a class may have several cgroups
				seen[mark] = true
				p.late = append(p.late, codepoint{mark, uint32(dscp) | l.marking.Hosts<<lateHosts})
			}
		}
	}
	slices.SortFunc(p.late, func(a, b codepoint) int { return cmp.Compare(a.Mark, b.Mark) })
	p.place.Late = uint32(len(p.late))
	p.place.Digest = p.digest()
}

// owner says which mark packets of a cgroup's sockets have, if the program at the
// cgroup has not seen them: the class, and the queue for what fits no rule. It is an
// element of Sockets.Owners.
type owner struct {
	ID   uint64
	Mark uint32
}

// portless are the classes that packets come to by no port and no cgroup: parts of
// Weir, whose sockets mark for themselves, and workloads whose network is not up.
func portless(s plan.State) []plan.ClassID {
	var list []plan.ClassID
	for _, class := range s.Classes {
		if class.ID != 0 && !class.Group && !slices.ContainsFunc(s.Ports, func(p plan.Port) bool { return p.Class == class.ID }) {
			list = append(list, class.ID)
		}
	}
	return list
}

// owned is a cgroup of a workload.
type owned struct {
	id     uint64
	levels uint32 // levelBits
	class  plan.ClassID
	queue  int
	marked bool // by a program there, and not by ports
}

// maxLevels is WEIR_MAX_LEVELS in bpf/marking/owner.h. No workload's cgroup is further down: its
// source refuses it.
const maxLevels = cgroups.MaxDepth + 1

// ownersOf finds the cgroups of a state. Those that are gone are left out, and so
// are those of version 1, which Attach has refused.
func ownersOf(s plan.State) ([]owned, error) {
	var list []owned
	var failed error
	for _, port := range s.Ports {
		if port.Cgroup == "" {
			continue
		}
		group, err := openCgroup(port.Cgroup)
		switch {
		case errors.Is(err, dataplane.ErrNoDevice), errors.Is(err, dataplane.ErrNoSupport):
			continue
		case err != nil:
			failed = errors.Join(failed, err)
			continue
		}
		group.Close()
		class, _ := s.Class(port.Class)
		rules, err := MarkingOf(class).rules()
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		list = append(list, owned{group.id, levelBits(levelOf(port.Cgroup)), port.Class, rules.Default, !port.Sockets})
	}
	// Of two workloads with one cgroup, the one that is known by it has it.
	marked := slices.DeleteFunc(slices.Clone(list), func(o owned) bool { return !o.marked })
	return append(slices.DeleteFunc(list, func(o owned) bool { return o.marked }), marked...), failed
}

// levelBits has the bit of a level, or of all where that is not known.
func levelBits(level int) uint32 {
	switch {
	case level < 0:
		return 1<<maxLevels - 1
	case level < maxLevels:
		return 1 << level
	}
	return 0
}

// levelOf is how far a cgroup is below the top of the hierarchy: 2 for
// /sys/fs/cgroup/system.slice/cron.service. It is -1 where the top is hidden, in a
// cgroup namespace.
func levelOf(path string) int {
	if !cgroups.FromTop() {
		return -1
	}
	for _, mount := range cgroups.Mounts() {
		if below, err := filepath.Rel(mount, path); err == nil && below != ".." && !strings.HasPrefix(below, "../") {
			if below == "." {
				return 0
			}
			return strings.Count(below, string(os.PathSeparator)) + 1
		}
	}
	return -1
}

// ownCgroup is the id of this process's cgroup. It is 0 where containers may be in the
// same one: on hosts without cgroups of version 2, or whose processes are in version 1; and
// in a cgroup namespace, from which it is not known: its path there begins elsewhere.
func ownCgroup() uint64 {
	hierarchy := cgroups.Read()
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || hierarchy.Trouble() != "" || !cgroups.FromTop() {
		return 0
	}
	group, err := openCgroup(filepath.Join(hierarchy.Root, cgroups.Of(string(text))))
	if err != nil {
		return 0
	}
	defer group.Close()
	return group.id
}

// Sockets says to which class the packets of local sockets belong: that of the cgroup
// that the socket was made in, whatever mark they carry.
type Sockets struct {
	Self   uint64            // id of the agent's own cgroup; 0 = none
	Levels uint32            // bit i = a cgroup of Owners is i below the top
	Sealed bool              // a workload is known by its cgroup alone, so that what stands above links seals its packets
	Owners map[uint64]uint32 // by the id of a cgroup, or the complement of a class that the agent's sockets may choose
}

// Sockets returns what a link with this state has to know of local sockets. Cgroups that
// are gone are left out.
func (m *Marker) Sockets(state plan.State) (Sockets, error) {
	s := Sockets{Self: m.self, Owners: map[uint64]uint32{}}
	groups, err := ownersOf(state)
	gone, failed := remnants{m}.of(state)
	err = errors.Join(err, failed)
	var choices []plan.ClassID
	if m.self != 0 {
		choices = portless(state)
	}
	for _, o := range slices.Concat(fitting(gone, mostOwners-len(groups)-len(choices)), groups) {
		s.Owners[o.id] = m.mask.Value(o.class, o.queue)
		s.Levels |= o.levels
		s.Sealed = s.Sealed || o.marked
	}
	for _, class := range choices {
		mark := m.mask.Value(class, 0)
		s.Owners[^uint64(mark)] = mark
	}
	return s, err
}

// mostOwners is WEIR_OWNERS in bpf/weir.h.
const mostOwners = 4096

// fitting returns as many of the cgroups that are gone as there is room for beside those of the plan:
// of each workload as many as of the others, and its oldest ones. A container that starts again and
// again, and has others keep its sockets, may keep neither a workload out of the table nor what is
// left of another one.
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
	p.place.Levels, p.place.Self = s.Levels, s.Self
	for _, id := range slices.Sorted(maps.Keys(s.Owners)) {
		p.owner = append(p.owner, owner{id, s.Owners[id]})
	}
	p.place.Digest = p.digest()
}
