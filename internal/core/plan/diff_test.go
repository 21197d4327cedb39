// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/framing"
)

func TestDiffInWords(t *testing.T) {
	golden(t, "diff", "changes", func(t *testing.T, in map[string]string) string {
		have, want := parseState(t, in["have"]), parseState(t, in["want"])
		changes := Diff(have, want)
		var b strings.Builder
		for _, c := range changes {
			fmt.Fprintln(&b, c)
		}
		if got := apply(t, have, changes); !reflect.DeepEqual(got, want) {
			t.Errorf("the changes lead to\n%swanted is\n%s", formatState(got), formatState(want))
		}
		return b.String()
	})
}

// apply makes the changes one by one, as a data plane would, and fails if one of
// them is not safe to make.
func apply(t interface{ Fatalf(string, ...any) }, s State, changes []Edit) State {
	fits := func(s State) bool { return s.Reserved() <= mins(s.Link) }
	s = State{Link: s.Link, Classes: slices.Clone(s.Classes), Ports: slices.Clone(s.Ports)}
	for i, c := range changes {
		fitted := fits(s)
		if !applyOne(&s, c) {
			t.Fatalf("step %d, %s, does not fit what is there:\n%s", i, c, formatState(s))
		}
		if fitted && !fits(s) && s.Link != (Link{}) {
			t.Fatalf("after step %d, %s, the mins are more than the link can hold:\n%s", i, c, formatState(s))
		}
		if problem := groupProblem(s); problem != "" {
			t.Fatalf("after step %d, %s, %s:\n%s", i, c, problem, formatState(s))
		}
		for _, p := range s.Ports {
			if class, ok := s.Class(p.Class); !ok || class.Group {
				t.Fatalf("after step %d, %s, port %s has no class:\n%s", i, c, p.Device, formatState(s))
			}
		}
	}
	return s
}

// groupProblem describes the first mistake in the groups of a state, "" for none.
func groupProblem(s State) string {
	held := map[ClassID]policy.Rate{}
	for _, c := range s.Classes {
		if c.Parent == 0 {
			continue
		}
		if g, ok := s.Class(c.Parent); !ok || !g.Group || c.Group {
			return fmt.Sprintf("class %d is in %d, which is no group", c.ID, c.Parent)
		}
		held[c.Parent] += c.Min
	}
	for id, sum := range held {
		if g, _ := s.Class(id); sum > g.Min {
			return fmt.Sprintf("the members of group %d have mins of %s, it has %s", id, sum, g.Min)
		}
	}
	return ""
}

// applyOne makes one change, if the state holds the change's old object.
func applyOne(s *State, c Edit) bool {
	class := func(want *Class) int {
		return slices.IndexFunc(s.Classes, func(c Class) bool { return c.Equal(*want) })
	}
	port := func(want *Port) int { return slices.IndexFunc(s.Ports, func(p Port) bool { return p == *want }) }
	ok := true
	switch c.Op {
	case AddLink:
		ok, s.Link = s.Link == Link{}, *c.NewLink
	case SetLink:
		ok, s.Link = s.Link == *c.OldLink, *c.NewLink
	case RemoveLink:
		ok, s.Link = s.Link == *c.OldLink && len(s.Classes) == 0, Link{}
	case AddClass:
		_, there := s.Class(c.NewClass.ID)
		ok, s.Classes = !there, append(s.Classes, *c.NewClass)
	case SetClass:
		if i := class(c.OldClass); i >= 0 && c.NewClass.ID == c.OldClass.ID {
			s.Classes[i] = *c.NewClass
		} else {
			ok = false
		}
	case RemoveClass:
		if i := class(c.OldClass); i >= 0 {
			s.Classes = slices.Delete(s.Classes, i, i+1)
		} else {
			ok = false
		}
	case AddPort:
		s.Ports = append(s.Ports, *c.NewPort)
	case SetPort:
		if i := port(c.OldPort); i >= 0 && c.NewPort.Ifindex == c.OldPort.Ifindex {
			s.Ports[i] = *c.NewPort
		} else {
			ok = false
		}
	case RemovePort:
		if i := port(c.OldPort); i >= 0 {
			s.Ports = slices.Delete(s.Ports, i, i+1)
		} else {
			ok = false
		}
	default:
		ok = false
	}
	sortState(s)
	return ok
}

func sortState(s *State) {
	slices.SortFunc(s.Classes, func(a, b Class) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Ports, func(a, b Port) int { return cmp.Compare(a.Ifindex, b.Ifindex) })
	if len(s.Classes) == 0 {
		s.Classes = nil
	}
	if len(s.Ports) == 0 {
		s.Ports = nil
	}
}

// anyState draws a State that admission would let pass, from so few values that
// two draws have much in common. The zero State is among them. Third is the number
// of a group: one from 1 to 6 may be a workload's in another draw.
func anyState(t *rapid.T, third int) State {
	if rapid.IntRange(0, 9).Draw(t, "steered") == 0 {
		return State{}
	}
	s := State{Link: Link{
		Device:    "eth0",
		Capacity:  rapid.SampledFrom([]policy.Rate{50e6, 100e6, 200e6}).Draw(t, "capacity"),
		Reserve:   rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "reserve"),
		Scheduler: rapid.SampledFrom(Schedulers).Draw(t, "scheduler"),
		Favour:    rapid.SampledFrom([]string{FavourNeither, FavourCPU}).Draw(t, "favour"),
		Framing:   framing.Framing{Overhead: rapid.IntRange(0, 1).Draw(t, "overhead")},
	}}
	// Groups have numbers of their own, but for the third one.
	groups := rapid.SliceOfNDistinct(rapid.SampledFrom([]int{8, 9, third}), 0, 3, rapid.ID[int]).Draw(t, "groups")
	ids := rapid.SliceOfNDistinct(rapid.IntRange(1, 6), 0, 6, rapid.ID[int]).Draw(t, "ids")
	ids = slices.DeleteFunc(ids, func(id int) bool { return slices.Contains(groups, id) })
	min := func(left *policy.Rate) policy.Rate {
		min := rapid.OneOf(rapid.Just(policy.Rate(0)), rapid.Just(*left), rapid.Just(*left/2)).Draw(t, "min")
		*left -= min
		return min
	}
	left := mins(s.Link)
	room := map[ClassID]*policy.Rate{0: &left}
	parents := []ClassID{0}
	draw := func(id int, parent ClassID) Class {
		return Class{
			ID: ClassID(id), Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"),
			Weight: rapid.Uint32Range(1, 2).Draw(t, "weight"), Min: min(room[parent]), Parent: parent,
			Max: policy.Rate(rapid.Uint64Range(0, 1).Draw(t, "max")) * 300e6,
		}
	}
	for _, id := range groups {
		c := draw(id, 0)
		c.Group = true
		room[c.ID], parents = new(c.Min), append(parents, c.ID)
		s.Classes = append(s.Classes, c)
	}
	var ported []ClassID
	for _, id := range append([]int{0}, ids...) {
		c := draw(id, rapid.SampledFrom(parents).Draw(t, "parent"))
		c.Limit.Packets = rapid.Uint32Range(0, 1).Draw(t, "packets")
		c.Discipline = rapid.SampledFrom([]discipline.Name{discipline.SFQ, discipline.FIFO}).Draw(t, "discipline")
		s.Classes, ported = append(s.Classes, c), append(ported, c.ID)
	}
	for _, index := range rapid.SliceOfNDistinct(rapid.IntRange(1, 8), 0, 8, rapid.ID[int]).Draw(t, "indexes") {
		s.Ports = append(s.Ports, Port{
			Device: rapid.SampledFrom([]string{"veth1", "veth2"}).Draw(t, "device"), Ifindex: index,
			Class: rapid.SampledFrom(ported).Draw(t, "class"),
		})
	}
	sortState(&s)
	return s
}

func TestDiffLeadsToWhatIsWantedSafely(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, want := anyState(t, 6), anyState(t, 6)
		changes := Diff(have, want)
		if got := apply(t, have, changes); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v leads to\n%swanted is\n%s", changes, formatState(got), formatState(want))
		}
		for _, c := range changes {
			if c.String() == "" || strings.HasSuffix(c.String(), ": ") {
				t.Errorf("%+v has no words", c)
			}
		}
		if len(changes) > 1+3*(len(have.Classes)+len(want.Classes))+len(have.Ports)+len(want.Ports) {
			t.Errorf("%d changes are more than there are objects", len(changes))
		}
	})
}

// A group that has got another number is told from its former self, which has the same name.
func TestGroupOfTheSameName(t *testing.T) {
	state := func(group ClassID) State {
		return State{Link: Link{Device: "eth0", Capacity: 100e6, Reserve: 1, Scheduler: SchedulerFair}, Classes: []Class{
			{ID: 1, Name: "web", Weight: 1, Parent: group}, {ID: group, Name: "office", Weight: 1, Group: true}}}
	}
	var texts []string
	for _, c := range Diff(state(8), state(9)) {
		texts = append(texts, c.String())
	}
	if want := "web: group office (class 8) -> office (class 9)"; !slices.Contains(texts, want) {
		t.Errorf("%q does not have %q", texts, want)
	}
}

func TestDiffOfTheSameIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyState(t, 7)
		shuffled := State{Link: s.Link}
		shuffled.Classes = append(shuffled.Classes, s.Classes...)
		shuffled.Ports = append(shuffled.Ports, s.Ports...)
		slices.Reverse(shuffled.Classes)
		slices.Reverse(shuffled.Ports)
		if changes := Diff(s, shuffled); len(changes) != 0 {
			t.Errorf("the same, and yet %v", changes)
		}
	})
}

// Packets of a port that only changes its class always have one.
func TestDiffNeverTakesAPortAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, want := anyState(t, 7), anyState(t, 7)
		stays := map[int]bool{}
		for _, p := range want.Ports {
			stays[p.Ifindex] = true
		}
		for _, c := range Diff(have, want) {
			if c.Op == RemovePort && stays[c.OldPort.Ifindex] {
				t.Errorf("%s, which is wanted", c)
			}
		}
	})
}

func TestStateClass(t *testing.T) {
	s := State{Classes: []Class{{ID: 0, Name: "host"}, {ID: 3, Name: "web"}}}
	if c, ok := s.Class(3); !ok || c.Name != "web" {
		t.Errorf("class 3 is %+v, %v", c, ok)
	}
	if _, ok := s.Class(1); ok {
		t.Error("class 1 is there")
	}
	// A port whose class is not there (another program tampered with the maps) is named by
	// number.
	have := State{Ports: []Port{{Device: "veth1", Ifindex: 1, Class: 9}}}
	if got := Diff(have, State{})[0].String(); got != "remove interface veth1 of class 9" {
		t.Errorf("got %q", got)
	}
}
