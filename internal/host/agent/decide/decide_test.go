// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/workload"
	"weir/internal/host/discover"
)

func BenchmarkDecide(b *testing.B) {
	w := benchWorld(b, 4000)
	for b.Loop() {
		Decide(w)
	}
}

// benchWorld is a world with n workloads that have their class numbers already.
func benchWorld(b testing.TB, n int) World {
	b.Helper()
	w := knowing(b, "")
	for i := range n {
		c := container(fmt.Sprintf("c%04d", i), "weir.weight=3")
		c.Devices[0].Ifindex = i
		w.Found = append(w.Found, c)
	}
	return Decide(w).World
}

// drawn are workloads with labels, some of them in a group.
func drawn(t *rapid.T, name string) []discover.Workload {
	rate := rapid.SampledFrom([]string{"1mbit", "10mbit", "30mbit", "60mbit", "20%", "90%"})
	var found []discover.Workload
	for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
		if !rapid.Bool().Draw(t, name+": "+n+" runs") {
			continue
		}
		var labels []string
		for _, field := range []string{"min", "max", "reserve", "ingress.min"} {
			if rapid.Bool().Draw(t, field) {
				labels = append(labels, "weir."+field+"="+rate.Draw(t, "rate"))
			}
		}
		if rapid.Bool().Draw(t, "grouped") {
			labels = append(labels, "weir.group="+rapid.SampledFrom([]string{"office", "tenant", "nobody"}).Draw(t, "group"))
		}
		found = append(found, container(n, labels...))
	}
	return found
}

// A workload whose policy has a mistake beside its min keeps the min when another raises its
// own: it asks for no more than it holds.
func TestMinBesideAMistakeIsKept(t *testing.T) {
	w := knowing(t, "labels: {allow: [min, max, reserve]}", container("early", "weir.min=10mbit"),
		container("web", "weir.min=10mbit", "weir.max=12mbit", "weir.reserve=12mbit")) // takes 12.5 on the wire
	w = Decide(w).World
	w.Found[0] = container("early", "weir.min=95mbit")
	d := Decide(w)
	if got := d.planned("web"); got != "weight 1 min 10 Mbit/s max 12 Mbit/s" {
		t.Errorf("web: %s", got)
	}
	d.expectNote(t, "early", "min is not in force: asked 95 Mbit/s, reserved 10 Mbit/s of 100 Mbit/s, free 90 Mbit/s")
}

// mins are grants by key. Their order may differ: a group whose own min has no room is granted
// its members', and asks for more than that the next time.
func mins(grants []AdmittedMin) map[string]policy.Rate {
	all := map[string]policy.Rate{}
	for _, g := range grants {
		all[g.Key] = g.Min
	}
	return all
}

// A decision holds no more than the links have, deciding about its world again changes
// nothing, and a min that was admitted stays for as long as its workload asks for no more.
func TestDecisionsAreStable(t *testing.T) {
	empty := knowing(t, `
links: [{device: eth0, egress: 100mbit, ingress: 50mbit, reservable: 80%}, {device: eth1, egress: 50mbit}]
labels: {allow: [min, max, reserve, group]}
groups: {office: {weight: 2, max: 50%}, tenant: {min: 5mbit}}`)
	rapid.Check(t, func(t *rapid.T) {
		w := empty.Clone()
		w.Found = drawn(t, "before")
		before := Decide(w)
		next := before.World.Clone()
		next.Found = append(slices.Clone(w.Found), drawn(t, "later")...)
		slices.SortFunc(next.Found, byKey)
		next.Found = slices.CompactFunc(next.Found, func(a, b discover.Workload) bool { return a.Key == b.Key })
		after := Decide(next)
		again := Decide(after.World)
		for link, state := range after.Plans {
			if limit := state.Link.Admission().Limit(); state.Reserved() > limit {
				t.Errorf("%s reserves %v of %v", link, state.Reserved(), limit)
			}
			if changes := plan.Diff(state, again.Plans[link]); len(changes) > 0 {
				t.Errorf("%s: deciding again changes %v", link, changes)
			}
			if first, second := mins(after.World.Grants[link]), mins(again.World.Grants[link]); !maps.Equal(first, second) {
				t.Errorf("%s: grants %v, and again %v", link, first, second)
			}
		}
		if !maps.Equal(after.World.Number, again.World.Number) {
			t.Errorf("numbers %v, and again %v", after.World.Number, again.World.Number)
		}
		for _, v := range after.Rulings {
			if was, there := before.Ruling(v.Key); there && was.State == workload.StateActive && v.State != workload.StateActive && maps.Equal(was.Labels, v.Labels) {
				t.Errorf("%s was active, and is %s because others came: %s", v.Name, v.State, v.Note)
			}
		}
	})
}

// TestSmallProfile: more workloads than the small tables have room for are refused, and none
// has a number beyond them.
func TestSmallProfile(t *testing.T) {
	w := benchWorld(t, 600)
	for profile, want := range map[string]int{plan.ProfileFull: 600, plan.ProfileSmall: plan.SmallClasses - 1} {
		w.Config.Profile = profile
		d := Decide(w)
		steered := 0
		for _, class := range d.Plans[w.Config.Links[0].Device].Classes {
			if class.ID != 0 {
				steered++
			}
			if int(class.ID) >= plan.ClassesOf(profile) {
				t.Errorf("%s: %s has number %d", profile, class.Name, class.ID)
			}
		}
		if steered != want {
			t.Errorf("%s: %d workloads have a class, want %d", profile, steered, want)
		}
	}
}
