// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/twolevel"
)

// tree is a link with groups: the groups' classes first.
type tree struct {
	groups   []plan.Class
	members  []plan.Class
	sources  []traffic
	branches []twolevel.Branch // one for each group, then one for each class without
	places   [][]int           // members of each branch, as indices of members
}

const firstMember = 11 // groups are classes 1 to 10

// drawTree draws up to 3 groups and up to 8 classes, in groups or not, whose mins
// fit at both levels, and traffic for each, sparse flows beside bulk too.
func drawTree(t *rapid.T, capacity policy.Rate) tree {
	var tr tree
	left := float64(capacity)
	n := rapid.IntRange(1, 3).Draw(t, "groups")
	inside := make([]float64, n) // what members' mins may take
	for i := range n {
		g := plan.Class{ID: plan.ClassID(i + 1), Name: fmt.Sprint("g", i), Weight: uint32(rapid.IntRange(1, 10).Draw(t, "weight")), Group: true}
		if rapid.Bool().Draw(t, "min?") {
			g.Min = policy.Rate(left * rapid.Float64Range(0.05, 0.6).Draw(t, "min"))
			left -= float64(g.Min)
			inside[i] = float64(g.Min)
		}
		if rapid.IntRange(0, 2).Draw(t, "max?") == 0 {
			low := math.Max(float64(g.Min), float64(capacity)*0.05)
			g.Max = policy.Rate(low + (float64(capacity)-low)*rapid.Float64Range(0, 1).Draw(t, "max"))
		}
		tr.groups = append(tr.groups, g)
		tr.branches = append(tr.branches, twolevel.Branch{Sharer: policy.Sharer{Weight: g.Weight, Min: g.Min, Max: g.Max, Demand: policy.Unlimited}})
		tr.places = append(tr.places, nil)
	}
	for i := range rapid.IntRange(2, 8).Draw(t, "classes") {
		group, room := rapid.IntRange(-1, n-1).Draw(t, "group"), &left
		if group >= 0 {
			room = &inside[group]
		}
		c, sharer, src := drawClass(t, plan.ClassID(firstMember+i), capacity, room)
		if group >= 0 {
			c.Parent = plan.ClassID(group + 1)
		}
		sources := []traffic{src}
		if src.interval == 0 && rapid.Bool().Draw(t, "sparse flows too?") {
			for f := range rapid.IntRange(1, 4).Draw(t, "sparse flows") {
				sources = append(sources, traffic{flow: sparseFlow + f, length: rapid.IntRange(60, 1200).Draw(t, "sparse length"),
					delay: time.Duration(rapid.IntRange(1, 3000).Draw(t, "sparse delay")) * time.Microsecond, packets: rapid.IntRange(1, 6).Draw(t, "packets")})
			}
		}
		tr.join(c, sharer, sources)
	}
	return tr
}

// join adds a class that sends this, to its group or to the link.
func (tr *tree) join(c plan.Class, sharer policy.Sharer, sources []traffic) {
	place := len(tr.members)
	tr.members = append(tr.members, c)
	for _, src := range sources {
		src.id = c.ID
		tr.sources = append(tr.sources, src)
	}
	if c.Parent == 0 {
		tr.branches = append(tr.branches, twolevel.Branch{Sharer: sharer})
		tr.places = append(tr.places, []int{place})
		return
	}
	i := slices.IndexFunc(tr.groups, func(g plan.Class) bool { return g.ID == c.Parent })
	tr.branches[i].Members = append(tr.branches[i].Members, sharer)
	tr.places[i] = append(tr.places[i], place)
}

// holds simulates the tree for a while and fails unless each class has what the contract gives it.
func (tr tree) holds(t interface{ Fatalf(string, ...any) }, capacity policy.Rate, over time.Duration) {
	s := simulate(fairLink(capacity), slices.Concat(tr.groups, tr.members)...)
	for _, src := range tr.sources {
		s.send(src)
	}
	s.settle()
	s.run(over)
	got := s.result(t)[1]
	for i, ideal := range tr.ideals(capacity) {
		c := tr.members[i]
		rate := got.rate(c.ID, over)
		if wrong := s.offItsOwn(c, rate, ideal, over); wrong != "" {
			t.Fatalf("class %d: %.3f Mbit/s, ideal %.3f of %v: %s\n%+v\n%s", c.ID, rate/1e6, ideal/1e6, capacity, wrong, tr.branches, s)
		}
	}
	if got.total*8 > float64(capacity)*(over.Seconds()+0.002)+2*frames*8 {
		t.Fatalf("link carried %.3f of %.3f Mbit/s\n%s", got.total*8/over.Seconds()/1e6, float64(capacity)/1e6, s)
	}
}

// ideals are the contract's rates of the members, in bits per second.
func (tr tree) ideals(capacity policy.Rate) []float64 {
	rates := make([]float64, len(tr.members))
	var branches []twolevel.Branch
	var places [][]int
	for i, b := range tr.branches {
		if len(tr.places[i]) > 0 {
			branches, places = append(branches, b), append(places, tr.places[i])
		}
	}
	division := twolevel.Divide(capacity, branches)
	for i, place := range places {
		for j, member := range place {
			if len(branches[i].Members) == 0 {
				rates[member] = division.Shares[i].Bps
			} else {
				rates[member] = division.Groups[i].Shares[j].Bps
			}
		}
	}
	return rates
}

// TestGroupsHoldTheContract draws trees of 3 groups and 8 classes.
func TestGroupsHoldTheContract(t *testing.T) {
	defer drawing("100", "10000")()
	rapid.Check(t, func(t *rapid.T) {
		capacity := policy.Rate(rapid.SampledFrom([]uint64{20e6, 100e6, 1e9}).Draw(t, "capacity"))
		tr := drawTree(t, capacity)
		tr.holds(t, capacity, max(time.Duration(float64(2000*frames*8*len(tr.members))/float64(capacity)*1e9), 2*time.Second))
	})
}

// TestGroupChanges: classes move between groups and groups change under load;
// nothing is lost, nothing stalls, and at the end the contract holds.
func TestGroupChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const capacity = policy.Rate(100e6)
		first := drawTree(t, capacity)
		s := simulate(fairLink(capacity), append(append([]plan.Class(nil), first.groups...), first.members...)...)
		for _, src := range first.sources {
			s.send(src)
		}
		for range rapid.IntRange(1, 10).Draw(t, "changes") {
			s.run(time.Duration(rapid.IntRange(1, 30).Draw(t, "ms")) * time.Millisecond)
			for _, c := range append(append([]plan.Class(nil), first.groups...), first.members...) {
				c.Weight = uint32(rapid.IntRange(1, 10).Draw(t, "weight"))
				c.Min, c.Max = 0, policy.Rate(rapid.SampledFrom([]uint64{0, 0, 1e6, 30e6}).Draw(t, "max"))
				if !c.Group {
					c.Discipline = rapid.SampledFrom([]discipline.Name{discipline.FIFO, discipline.SFQ, discipline.LLQ}).Draw(t, "discipline")
					c.Queues = []plan.Queue{{Rate: 1e9, Weight: 1e9}} // of llq: every packet is urgent
					c.Parent = plan.ClassID(rapid.IntRange(0, len(first.groups)).Draw(t, "parent"))
				}
				s.setClass(c)
			}
		}
		s.run(time.Millisecond)
		last := first
		for _, c := range append(append([]plan.Class(nil), last.groups...), last.members...) {
			s.setClass(c)
		}
		s.settle()
		s.run(2 * time.Second)
		phases := s.result(t)
		got := phases[len(phases)-2]
		for i, ideal := range last.ideals(capacity) {
			c := last.members[i]
			if rate := got.rate(c.ID, 2*time.Second); math.Abs(rate-ideal) > 0.02*float64(capacity) {
				t.Fatalf("class %d: %.3f Mbit/s, ideal %.3f\n%+v\n%s", c.ID, rate/1e6, ideal/1e6, last.branches, s)
			}
		}
	})
}

// TestGroupWokenByAMember: a group that was empty for long has no claim to that
// time when a class comes into it with packets.
func TestGroupWokenByAMember(t *testing.T) {
	const capacity = policy.Rate(25e6)
	group := plan.Class{ID: 1, Name: "g", Weight: 1, Group: true}
	first := plan.Class{ID: 11, Name: "a", Weight: 1}
	second := plan.Class{ID: 12, Name: "b", Weight: 1}
	s := simulate(fairLink(capacity), group, first, second)
	for _, c := range []plan.Class{first, second} {
		s.send(traffic{id: c.ID, length: frames, window: 20, delay: 50 * time.Microsecond})
	}
	s.run(10 * time.Second)
	first.Parent = group.ID
	s.setClass(first)
	s.run(time.Second)
	got := s.result(t)[1]
	for _, c := range []plan.Class{first, second} {
		if rate := got.rate(c.ID, time.Second); math.Abs(rate-12.5e6) > 0.02*float64(capacity) {
			t.Errorf("class %d: %.2f Mbit/s, want 12.5", c.ID, rate/1e6)
		}
	}
}

// TestGroupAtItsMaxMakesGood: a member that has a packet now and then does not make
// its group, which is parked at its max and late, forget what it is late by.
func TestGroupAtItsMaxMakesGood(t *testing.T) {
	const capacity, most = policy.Rate(1e9), policy.Rate(465e6)
	group := plan.Class{ID: 1, Name: "g", Weight: 4, Min: most, Max: most, Group: true}
	greedy := plan.Class{ID: 11, Name: "greedy", Weight: 1, Parent: group.ID}
	sparse := plan.Class{ID: 12, Name: "sparse", Weight: 1, Parent: group.ID}
	other := plan.Class{ID: 13, Name: "other", Weight: 6}
	s := simulate(fairLink(capacity), group, greedy, sparse, other)
	for _, c := range []plan.Class{greedy, other} {
		s.send(traffic{id: c.ID, length: frames, window: 86, delay: 12 * time.Microsecond})
	}
	s.send(traffic{id: sparse.ID, length: 1000, interval: 2630 * time.Microsecond})
	s.settle()
	s.run(time.Second)
	got := s.result(t)[1]
	if rate := got.rate(greedy.ID, time.Second) + got.rate(sparse.ID, time.Second); math.Abs(rate-float64(most)) > 0.003*float64(most) {
		t.Errorf("the group has %.1f of its %v", rate/1e6, most)
	}
}

// TestMinOfAMemberWhoseGroupWaits: a group's turn comes once in 11 ms here, after more than that at
// times. A member that could not have its min meanwhile has it then.
func TestMinOfAMemberWhoseGroupWaits(t *testing.T) {
	const capacity, least, over = policy.Rate(100e6), policy.Rate(4e6), 10 * time.Second
	group := plan.Class{ID: 1, Name: "g", Weight: 2, Min: least, Group: true} // has 7.41 Mbit/s
	promised := plan.Class{ID: 11, Name: "promised", Weight: 8, Min: least, Parent: group.ID}
	classes := []plan.Class{group, promised, {ID: 12, Name: "other", Weight: 13, Parent: group.ID}}
	for i, weight := range []uint32{3, 8, 3, 5, 6} {
		classes = append(classes, plan.Class{ID: plan.ClassID(13 + i), Name: fmt.Sprint("c", i), Weight: weight})
	}
	s := simulate(fairLink(capacity), classes...)
	for _, c := range classes[1:] {
		s.send(traffic{id: c.ID, length: frames, window: 20, delay: 50 * time.Microsecond})
	}
	s.settle()
	s.run(over)
	if rate := s.result(t)[1].rate(promised.ID, over); math.Abs(rate/float64(least)-1) > 0.002 {
		t.Errorf("it has %.3f of its %v", rate/1e6, least)
	}
}
