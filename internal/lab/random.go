// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"weir/internal/lab/scenario"
)

// Mix is what random scenarios have beside workloads.
type Mix string

// The mixes; "" has nothing beside them.
const (
	OfGroups Mix = "groups"
	OfZones  Mix = "zones"
)

// Random writes a scenario file with a mix of weights, mins and maxes for up to
// eight workloads on 100 Mbit/s, always the same for a seed. In its second phase
// some policies are different and some workloads are silent. It expects of the
// scheduler fair what Weir promises: every rate within 2 % of the link of its
// ideal, and no workload below its min or above its max by more than 1 % of the link, nor
// by more than 2 % of that min or max, however small it is.
//
// OfGroups has eight workloads, three groups that have rates of their own, and some workloads
// without a group; the same holds at both levels. OfZones has eight workloads, which send to two
// zones behind the link or to none; the same holds in each zone.
func Random(seed uint64, mix Mix) []byte {
	switch mix {
	case OfGroups:
		return randomTree(seed)
	case OfZones:
		return randomZones(seed)
	}
	d := &dice{rand.New(rand.NewPCG(seed, 0x77656972))}
	n := 1 + d.IntN(8)
	var b strings.Builder
	fmt.Fprintf(&b, "# weir lab random --seed %d\nname: random mix, seed %d\nlink: {bandwidth: 100mbit}\nworkloads:\n", seed, seed)
	for i, p := range d.policies(n) {
		fmt.Fprintf(&b, "  c%d: {%s, traffic: [{tcp: {streams: %d}}]}\n", i+1, p, 1+d.IntN(3))
	}
	fmt.Fprint(&b, "phases:\n  - {for: 6s}\n  - for: 6s\n    set:\n")
	d.second(&b, d.policies(n))
	fmt.Fprint(&b, expectPromise)
	return []byte(b.String())
}

// randomZones is Random with zones.
func randomZones(seed uint64) []byte {
	const workloads = 8
	d := &dice{rand.New(rand.NewPCG(seed, 0x7a6f6e6573))}
	var b strings.Builder
	fmt.Fprintf(&b, "# weir lab random --zones --seed %d\nname: random zones, seed %d\n", seed, seed)
	room := []int{15 + d.IntN(30), 15 + d.IntN(30), 0} // Mbit/s of each zone, and what they leave
	room[2] = 100 - room[0] - room[1]
	fmt.Fprintf(&b, "link: {bandwidth: 100mbit, zones: {z1: {bandwidth: %dmbit, prefixes: %d}, z2: {bandwidth: %dmbit}}}\nworkloads:\n", room[0], d.IntN(2000), room[1])
	var in [workloads]int
	for w := range in {
		in[w] = d.IntN(len(room))
	}
	policies := func() []string {
		left, list := slices.Clone(room), []string{}
		for _, zone := range in {
			list = append(list, d.policiesWithin(1, &left[zone])[0])
		}
		return list
	}
	for w, p := range policies() {
		zone := ""
		if in[w] < 2 {
			zone = fmt.Sprintf("zone: z%d, ", in[w]+1)
		}
		fmt.Fprintf(&b, "  c%d: {%s%s, traffic: [{tcp: {streams: %d}}]}\n", w+1, zone, p, 1+d.IntN(3))
	}
	fmt.Fprint(&b, "phases:\n  - {for: 6s}\n  - for: 6s\n    set:\n")
	d.second(&b, policies())
	fmt.Fprint(&b, expectPromise)
	return []byte(b.String())
}

// second writes what workloads do in the second phase, in which some are silent.
func (d *dice) second(b *strings.Builder, policies []string) {
	awake := d.IntN(len(policies)) // at least this one goes on sending
	for i, p := range policies {
		traffic := ""
		if i != awake && d.IntN(4) == 0 {
			traffic = ", traffic: off"
		}
		fmt.Fprintf(b, "      c%d: {%s%s}\n", i+1, p, traffic)
	}
}

// randomTree is Random with groups.
func randomTree(seed uint64) []byte {
	const workloads, groups = 8, 3
	d := &dice{rand.New(rand.NewPCG(seed, 0x67726f757073))}
	var b strings.Builder
	fmt.Fprintf(&b, "# weir lab random --groups --seed %d\nname: random tree, seed %d\nlink: {bandwidth: 100mbit}\n", seed, seed)
	of := make([]int, workloads) // the group of each, groups = none
	for w := range of {
		of[w] = d.IntN(groups + 1)
	}
	first, second := d.tree(of, groups), d.tree(of, groups)
	fmt.Fprint(&b, "groups:\n")
	for g, p := range first.groups {
		fmt.Fprintf(&b, "  g%d: {%s}\n", g+1, p)
	}
	fmt.Fprint(&b, "workloads:\n")
	for w, p := range first.workloads {
		group := "none"
		if of[w] < groups {
			group = fmt.Sprintf("g%d", of[w]+1)
		}
		fmt.Fprintf(&b, "  c%d: {group: %s, %s, traffic: [{tcp: {streams: %d}}]}\n", w+1, group, p, 1+d.IntN(3))
	}
	fmt.Fprint(&b, "phases:\n  - {for: 6s}\n  - for: 6s\n    groups:\n")
	for g, p := range second.groups {
		fmt.Fprintf(&b, "      g%d: {%s}\n", g+1, p)
	}
	fmt.Fprint(&b, "    set:\n")
	d.second(&b, second.workloads)
	fmt.Fprint(&b, expectPromise)
	return []byte(b.String())
}

// expectPromise states the bounds that the contract's scheduler has to hold.
const expectPromise = `expect:
  - {scheduler: fair, rate: ideal, within: 2mbit}
  - {scheduler: fair, bounds: held, within: 1mbit}
  - {scheduler: fair, bounds: held, within: 2%}
`

// tree is the policies of one phase.
type tree struct{ groups, workloads []string }

// tree draws policies whose mins fit at both levels, for workloads that are in
// the groups of.
func (d *dice) tree(of []int, groups int) tree {
	room := 80 // Mbit/s left for mins, so that there is something to share
	t := tree{workloads: d.policiesWithin(len(of), &room)}
	sums := make([]int, groups+1)
	for w, p := range t.workloads {
		var weight, low int
		if n, _ := fmt.Sscanf(p, "weight: %d, min: %dmbit", &weight, &low); n == 2 {
			sums[of[w]] += low
		}
	}
	for g := range groups {
		text, least := fmt.Sprintf("weight: %d, min: ", 1+d.IntN(5)), max(1, sums[g])
		if extra := d.IntN(20); d.IntN(3) == 0 && extra <= room && sums[g]+extra > 0 {
			room, least = room-extra, sums[g]+extra
			text += fmt.Sprintf("%dmbit", least)
		} else {
			text += "none"
		}
		text += ", max: "
		if d.IntN(3) == 0 {
			text += fmt.Sprintf("%dmbit", least+1+d.IntN(60))
		} else {
			text += "none"
		}
		t.groups = append(t.groups, text)
	}
	return t
}

// dice are random choices.
type dice struct{ *rand.Rand }

// policies for n workloads whose mins fit into the link of 100 Mbit/s together.
func (d *dice) policies(n int) []string {
	room := 100 // Mbit/s left for mins
	return d.policiesWithin(n, &room)
}

func (d *dice) policiesWithin(n int, room *int) []string {
	var list []string
	for range n {
		text, least := fmt.Sprintf("weight: %d", 1+d.IntN(10)), 1
		text += ", min: "
		if m := 1 + d.IntN(40); d.IntN(3) == 0 && m <= *room {
			*room, least = *room-m, m
			text += fmt.Sprintf("%dmbit", m)
		} else {
			text += "none"
		}
		text += ", max: "
		if d.IntN(3) == 0 {
			text += fmt.Sprintf("%dmbit", least+1+d.IntN(60))
		} else {
			text += "none"
		}
		list = append(list, text)
	}
	return list
}

// NewSeed returns a random seed of at most nine digits.
func NewSeed() uint64 { return 1 + rand.Uint64N(999_999_999) }

// RunRandom runs the random scenarios of count seeds, from the given one on, with
// Options.Scheduler or else fair. How to run them again is printed first; each scenario's
// name in the report has its seed. Options.Files is not looked at.
func RunRandom(ctx context.Context, o Options, seed uint64, count int, mix Mix) (exit int, err error) {
	o.Files = []string{"random"}
	if err := o.check(); err != nil {
		return ExitInvalid, err
	}
	if count < 1 {
		return ExitInvalid, fmt.Errorf("--count %d: out of range; write 1 or more", count)
	}
	if err := o.demanded(); err != nil {
		return ExitBroken, err
	}
	option := ""
	if mix != "" {
		option = " --" + string(mix)
	}
	fmt.Fprintf(o.Stderr, "the same again: weir lab random%s --seed %d --count %d\n", option, seed, count)
	var broken []error
	for i := range uint64(count) {
		file, data := fmt.Sprintf("random-%d.yaml", seed+i), Random(seed+i, mix)
		s, err := scenario.Parse(file, data)
		if err != nil {
			return ExitBroken, fmt.Errorf("the random scenario of seed %d is not valid: %w", seed+i, err)
		}
		status, err := o.one(ctx, loaded{s, data})
		if err != nil {
			broken = append(broken, fmt.Errorf("seed %d: %w", seed+i, err))
			if exit = ExitBroken; ends(ctx, err) {
				break
			}
			continue
		}
		if status != ExitOK {
			fmt.Fprintf(o.Stderr, "seed %d fails; the scenario is:\n%s", seed+i, data)
		}
		exit = max(exit, status)
	}
	return exit, errors.Join(broken...)
}
