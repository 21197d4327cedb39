// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"slices"

	"weir/internal/core/policy"
)

// Diff lists the changes that lead from have to want, none if they are the same.
// They are in an order in which each is safe to make, so that a reader of the
// kernel's state never sees one that Weir would refuse, and an agent that stops half
// way leaves the link working:
//
//   - a port always points to a class that exists;
//   - a port that changes its class changes it in one step, its packets are never
//     without a class in between;
//   - a class is in a group only while the group is there;
//   - the sum of the mins is within the link's limit before and after each
//     step, if it is so in have and in want; and the mins of a group's members are
//     within the group's.
//
// So a class that goes to another group gives up its min first, and has it again
// once it is there.
//
// Classes are the same if their numbers are, and if both or neither are groups;
// ports if their places are. (A number that stood for a workload stands
// for a group only after all numbers were taken; only then is a port that stays
// without a class for a moment.) The order of Classes and Ports in the arguments does not matter.
func Diff(have, want State) []Edit {
	d := differ{
		have: have, want: want,
		haveClass: byID(have.Classes), wantClass: byID(want.Classes),
		havePort: portsByPlace(have.Ports), wantPort: portsByPlace(want.Ports),
	}
	d.dissolve()
	d.removePorts()
	d.removeClasses(false) // those that no port points to any more
	stays := want.Link != Link{}
	if stays && mins(have.Link) <= mins(want.Link) {
		d.link()
	}
	d.releaseMins()
	d.setClasses(func(from, to Class) bool { return !to.Group && from.Parent == to.Parent && from.Min >= to.Min })
	d.releaseMovers()
	d.setClasses(func(from, to Class) bool { return to.Group && from.Min >= to.Min }) // their members have given
	d.releaseGroups()
	if stays && mins(have.Link) > mins(want.Link) {
		d.link()
	}
	d.setClasses(func(_, to Class) bool { return to.Group })
	d.addClasses(true)
	d.setClasses(func(_, _ Class) bool { return true })
	d.addClasses(false)
	d.movePorts()
	d.removeClasses(true)
	if !stays {
		d.link() // there is nothing left on it
	}
	return d.changes
}

// mins returns the rate that the mins on a link may take together.
func mins(l Link) policy.Rate { return l.Admission().Limit() }

// differ is a list of changes while it is being written.
type differ struct {
	have, want           State
	haveClass, wantClass map[ClassID]Class // present and wanted; haveClass follows the changes
	havePort, wantPort   map[Port]Port
	changes              []Edit
}

func byID(classes []Class) map[ClassID]Class {
	m := make(map[ClassID]Class, len(classes))
	for _, c := range classes {
		m[c.ID] = c
	}
	return m
}

func portsByPlace(ports []Port) map[Port]Port {
	m := make(map[Port]Port, len(ports))
	for _, p := range ports {
		m[p.Place()] = p
	}
	return m
}

// sorted returns the map's values by key, so that equal states give equal lists.
func sorted[K cmp.Ordered, V any](m map[K]V) []V {
	var values []V
	for _, k := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[k])
	}
	return values
}

func sortedPorts(m map[Port]Port) []Port { return slices.SortedFunc(maps.Values(m), byPlace) }

func (d *differ) link() {
	if d.have.Link != d.want.Link {
		d.changes = append(d.changes, linkEdit(d.have.Link, d.want.Link))
	}
}

func (d *differ) removePorts() {
	for _, p := range sortedPorts(d.havePort) {
		if _, stays := d.wantPort[p.Place()]; !stays {
			d.changes = append(d.changes, removePort(p, d.have))
			delete(d.havePort, p.Place())
		}
	}
}

// dissolve takes away what stands under a number that is to stand for something
// of the other kind: a workload for a group, or a group for a workload.
func (d *differ) dissolve() {
	for _, c := range sorted(d.haveClass) {
		to, stays := d.wantClass[c.ID]
		if !stays || to.Group == c.Group {
			continue
		}
		for _, p := range sortedPorts(d.havePort) {
			if p.Class == c.ID {
				d.changes = append(d.changes, removePort(p, d.have))
				delete(d.havePort, p.Place())
			}
		}
		for _, member := range sorted(d.haveClass) {
			if member.Parent == c.ID {
				alone := member
				alone.Parent, alone.Min = 0, 0
				d.set(member, alone)
			}
		}
		d.changes = append(d.changes, removeClass(d.haveClass[c.ID]))
		delete(d.haveClass, c.ID)
	}
}

// removeClasses removes the classes that are not wanted: the ones without ports, or
// at the end, when all ports have moved, the rest. Groups go after their members,
// and the host's class, where all packets without a class go, is the last.
func (d *differ) removeClasses(rest bool) {
	for _, group := range []bool{false, true} {
		occupied := d.occupied()
		for _, c := range slices.Backward(sorted(d.haveClass)) {
			_, stays := d.wantClass[c.ID]
			if stays || c.Group != group || c.ID == 0 || (occupied[c.ID] && !rest) {
				continue
			}
			d.changes = append(d.changes, removeClass(c))
			delete(d.haveClass, c.ID)
		}
	}
	host, there := d.haveClass[0]
	if _, stays := d.wantClass[0]; there && !stays && (rest || !d.occupied()[0]) {
		d.changes = append(d.changes, removeClass(host))
		delete(d.haveClass, 0)
	}
}

// occupied returns the classes that a port or a member points to.
func (d *differ) occupied() map[ClassID]bool {
	occupied := map[ClassID]bool{}
	for _, p := range d.havePort {
		occupied[p.Class] = true
	}
	for _, c := range d.haveClass {
		if c.Parent != 0 {
			occupied[c.Parent] = true
		}
	}
	return occupied
}

// releaseMins takes the min from each class that will go as soon as its ports
// have moved (a renamed container is a new workload with the old device), since
// the class they move to may need it.
func (d *differ) releaseMins() {
	d.release(func(c Class) bool {
		_, stays := d.wantClass[c.ID]
		return !stays && !c.Group
	})
}

// releaseMovers takes the min from each class that will go to another group, or
// leave its group.
func (d *differ) releaseMovers() {
	d.release(func(c Class) bool {
		to, stays := d.wantClass[c.ID]
		return stays && to.Parent != c.Parent
	})
}

// releaseGroups takes the min from each group that will go as soon as its members
// have.
func (d *differ) releaseGroups() {
	d.release(func(c Class) bool {
		_, stays := d.wantClass[c.ID]
		return !stays && c.Group
	})
}

func (d *differ) release(whose func(Class) bool) {
	for _, c := range sorted(d.haveClass) {
		if c.Min != 0 && whose(c) {
			without := c
			without.Min = 0
			d.set(c, without)
		}
	}
}

// set changes a class.
func (d *differ) set(from, to Class) {
	d.changes = append(d.changes, setClass(from, to, d.have, d.want))
	d.haveClass[to.ID] = to
}

// setClasses changes the classes that stay, if now says that it is their turn.
func (d *differ) setClasses(now func(from, to Class) bool) {
	for _, to := range sorted(d.wantClass) {
		if from, ok := d.haveClass[to.ID]; ok && !from.Equal(to) && now(from, to) {
			d.set(from, to)
		}
	}
}

// addClasses adds the classes that are missing, the groups or the others.
func (d *differ) addClasses(groups bool) {
	for _, c := range sorted(d.wantClass) {
		if _, ok := d.haveClass[c.ID]; !ok && c.Group == groups {
			d.changes = append(d.changes, addClass(c, d.want))
			d.haveClass[c.ID] = c
		}
	}
}

func (d *differ) movePorts() {
	for _, to := range sortedPorts(d.wantPort) {
		from, ok := d.havePort[to.Place()]
		switch {
		case !ok:
			d.changes = append(d.changes, addPort(to, d.want))
		case from != to:
			d.changes = append(d.changes, setPort(from, to, d.have, d.want))
		}
	}
}
