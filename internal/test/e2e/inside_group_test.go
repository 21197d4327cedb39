// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/internal/api/apitest"
	"weir/internal/core/policy"
	"weir/internal/core/policy/twolevel"
)

// tree is who is in which group and what was promised, as the contract wants it;
// the test changes it beside the agent.
type tree struct {
	groups  map[string]policy.Policy
	members map[string]policy.Policy // w1, w2, ...; Group says where it is
}

// ideal is the contract's division at both levels, of w1, w2, ...
func (b *bed) idealOf(tr tree) []float64 {
	b.t.Helper()
	sharer := func(p policy.Policy) policy.Sharer {
		c, err := p.Sharer(b.capacity)
		if err != nil {
			b.t.Fatal(err)
		}
		return c
	}
	var branches []twolevel.Branch
	rates := make([]float64, len(b.boxes))
	where := map[string]int{}
	var places [][]int // numbers of the workloads in each branch
	for i := range b.boxes {
		p := tr.members[fmt.Sprintf("w%d", i+1)]
		at, known := where[p.Group]
		if p.Group == "" || !known {
			at = len(branches)
			branches, places = append(branches, twolevel.Branch{}), append(places, nil)
			if p.Group == "" {
				branches[at].Sharer = sharer(p)
			} else {
				where[p.Group] = at
				branches[at].Sharer = sharer(tr.groups[p.Group])
			}
		}
		if p.Group != "" {
			branches[at].Members = append(branches[at].Members, sharer(p))
		}
		places[at] = append(places[at], i)
	}
	for at := range branches {
		// A group without a min reserves its members'.
		if br := &branches[at]; br.Members != nil && br.Min == 0 {
			for _, m := range br.Members {
				br.Min += m.Min
			}
		}
	}
	division := twolevel.Divide(b.capacity, branches)
	for at, list := range places {
		for k, i := range list {
			if branches[at].Members == nil {
				rates[i] = division.Shares[at].Bps / 1e6
			} else {
				rates[i] = division.Groups[at].Shares[k].Bps / 1e6
			}
		}
	}
	return rates
}

func percent(n float64) policy.Amount { return policy.Amount{Percent: n} }

// Two groups and a workload of its own hold the contract at both levels, whatever changes
// while all workloads send all they can: groups, members, the group of a member.
func TestGroups(t *testing.T) {
	needsQueues(t)
	b := newBed(t, 6, 1)
	b.configure("groups:\n  tenant-a: {weight: 1}\n  tenant-b: {weight: 2, max: 40%}\n" +
		"workloads:\n  w1: {group: tenant-a}\n  w2: {group: tenant-a, weight: 3}\n" +
		"  w3: {group: tenant-b, weight: 2}\n  w4: {group: tenant-b}\n")
	a := b.start()
	b.steered(a)
	tr := tree{
		groups: map[string]policy.Policy{"tenant-a": {Weight: 1}, "tenant-b": {Weight: 2, Max: percent(40)}},
		members: map[string]policy.Policy{
			"w1": {Weight: 1, Group: "tenant-a"}, "w2": {Weight: 3, Group: "tenant-a"},
			"w3": {Weight: 2, Group: "tenant-b"}, "w4": {Weight: 1, Group: "tenant-b"},
			"w5": {Weight: 1}, "w6": {Weight: 1},
		},
	}
	var flows []flow
	for i := 1; i <= 6; i++ {
		flows = append(flows, b.flood(0, i, 0.6))
	}
	b.warmUp()
	b.same("as configured", b.full(0, 2*time.Second), b.idealOf(tr), 0.02)
	b.healthy()
	for _, step := range []struct {
		do       string
		group    string
		workload string
		is       policy.Policy
	}{
		{"group set tenant-a --weight 4", "tenant-a", "", policy.Policy{Weight: 4}},
		{"group set tenant-b --max none", "tenant-b", "", policy.Policy{Weight: 2}},
		{"group set tenant-b --min 50%", "tenant-b", "", policy.Policy{Weight: 2, Min: percent(50)}},
		{"set w4 --min 30%", "", "w4", policy.Policy{Weight: 1, Group: "tenant-b", Min: percent(30)}},
		{"set w2 --group tenant-b", "", "w2", policy.Policy{Weight: 3, Group: "tenant-b"}},
		{"set w3 --max 8%", "", "w3", policy.Policy{Weight: 2, Group: "tenant-b", Max: percent(8)}},
		{"set w1 --group none", "", "w1", policy.Policy{Weight: 1}}, // tenant-a is empty
		{"group set tenant-c --weight 3 --max 30%", "tenant-c", "", policy.Policy{Weight: 3, Max: percent(30)}},
		{"set w5 --group tenant-c --weight 9", "", "w5", policy.Policy{Weight: 9, Group: "tenant-c"}},
		{"set w6 --group tenant-c --min 10%", "", "w6", policy.Policy{Weight: 1, Group: "tenant-c", Min: percent(10)}},
		{"set w5 --group tenant-a", "", "w5", policy.Policy{Weight: 9, Group: "tenant-a"}},
		{"group set tenant-b --reset", "tenant-b", "", policy.Policy{Weight: 2, Max: percent(40)}},
	} {
		b.weir(strings.Fields(step.do)...)
		if step.group != "" {
			tr.groups[step.group] = step.is
		} else {
			tr.members[step.workload] = step.is
		}
		<-time.After(200 * time.Millisecond)
		b.same(step.do, b.full(0, time.Second), b.idealOf(tr), 0.02)
	}
	b.addUp(b.counters(0))
	var classes []uint16
	for i := 1; i <= 6; i++ {
		classes = append(classes, a.workload(fmt.Sprintf("w%d", i)).Class)
	}
	b.accounted(flows, classes...)
}

// Workloads that change their groups under load lose nothing as long as they send
// less than their share, and are served all the time.
func TestGroupChangesUnderLoad(t *testing.T) {
	needsQueues(t)
	changes := 150
	if *long {
		changes = 1000
	}
	b := newBed(t, 4, 1)
	b.configure("groups:\n  g1: {}\n  g2: {weight: 2}\n")
	a := b.start()
	b.steered(a)
	modest := []flow{b.udp(0, 1, 0.05), b.udp(0, 2, 0.05)}
	floods := []flow{b.flood(0, 3, 0.9), b.flood(0, 4, 0.9)}
	b.warmUp()
	b.arrivalsOf(modest)
	b.changes(changes, 0, func(_ int, draw *rand.Rand) error { return randomGroupChange(a, draw) })
	for i, f := range b.arrivalsOf(modest) {
		if f.Gap > 200*time.Millisecond {
			t.Errorf("w%d: nothing arrived for %v", i+1, f.Gap)
		}
	}
	sent, lost := b.settle(modest...)
	t.Logf("of %d packets, %d lost", sent, lost)
	if sum(lost) > 0 {
		t.Errorf("workloads below their share lost %d packets", lost)
	}
	b.accounted(floods, a.workload("w3").Class, a.workload("w4").Class)
	if n := drops(b.counters(0), "reset", "link_packets", "link_bytes"); n > 0 {
		t.Errorf("%d packets dropped by the changes", n)
	}
}

// randomGroupChange moves w1, w2 or w3 to another group, or changes a group. w4
// stays where no max keeps it from filling the link.
func randomGroupChange(a *agent, draw *rand.Rand) error {
	ctx := context.Background()
	if draw.IntN(3) > 0 {
		to := []string{"none", "g1", "g2"}[draw.IntN(3)]
		_, err := a.Set(ctx, fmt.Sprintf("w%d", 1+draw.IntN(3)), apitest.Change("group", to), false)
		return err
	}
	weight := uint32(1 + draw.IntN(5))
	least, most := "none", "none"
	if draw.IntN(2) == 0 {
		least = fmt.Sprintf("%d%%", 10+draw.IntN(30))
	}
	if draw.IntN(2) == 0 {
		most = fmt.Sprintf("%d%%", 50+draw.IntN(50)) // never less than a min
	}
	_, err := a.SetGroup(ctx, fmt.Sprintf("g%d", 1+draw.IntN(2)), apitest.GroupChange("weight", fmt.Sprint(weight), "min", least, "max", most), false)
	return err
}

// What a group and its members cannot have is refused with the figures.
func TestGroupRefusals(t *testing.T) {
	needsQueues(t)
	b := newBed(t, 3, 1)
	b.configure("groups:\n  tenant-a: {}\n  tenant-b: {max: 40%}\n" +
		"workloads:\n  w1: {group: tenant-a, min: 20%}\n  w2: {group: tenant-b, min: 30%}\n")
	a := b.start()
	b.steered(a)
	b.weir("group", "set", "tenant-d", "--weight", "3")
	b.weir("set", "w3", "--group", "tenant-d")
	part := func(percent int) string { return fmt.Sprintf("%g Mbit/s", float64(b.capacity)*float64(percent)/1e8) }
	for _, test := range []struct {
		name, args string
		code       int
		words      []string
	}{
		{"group's min below its members'", "group set tenant-a --min 10%", 5, []string{"min", "10%", part(20), part(10), "w1"}},
		{"group's max below its members' mins", "group set tenant-b --max 20%", 5, []string{"max", "20%", part(30), "w2"}},
		{"member's min above the group's max", "set w3 --group tenant-b --min 20%", 5, []string{"min", "tenant-b", part(40), "w2"}},
		{"group's min above what is free", "group set tenant-a --min 90%", 5, []string{"min", part(90), "up0"}},
		{"member's min above what is free", "set w1 --min 80%", 5, []string{"min", part(80), "up0"}},
		{"group's min above its max", "group set tenant-b --min 50%", 2, []string{"min", "50 %", "40 %"}},
		{"unknown group", "set w3 --group tenant-c", 2, []string{"tenant-c", "weir group set"}},
		{"delete what the file has", "group delete tenant-a", 5, []string{"tenant-a", b.configFile()}},
		{"delete what has members", "group delete tenant-d", 5, []string{"tenant-d", "w3"}},
		{"queues above the workload's min", "set w1 --discipline cbwfq --queue a:{min:20%,match:[{udp:1}]} --queue b:{min:20%}", 2, []string{"min", "20 %", part(10 * 4), part(20)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := b.with(t)
			before := b.promises()
			args := strings.Fields(test.args)
			for i := range args {
				args[i] = strings.NewReplacer(":", ": ").Replace(args[i])
			}
			b.oneLine("weir "+test.args, b.cli(args...), test.code, test.words...)
			b.unchanged("after the refusal", before, b.promises())
		})
	}
}
