// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"weir/internal/lab/scenario"
)

// Random writes a scenario file with a mix of weights, mins and maxes for up to
// eight workloads on 100 Mbit/s, always the same for a seed. In its second phase
// some policies are different and some workloads are silent. It expects of the
// scheduler fair what Weir promises: every rate within 2 % of the link of its
// ideal, and nobody below its min or above its max by more than 1 %.
func Random(seed uint64) []byte {
	d := &dice{rand.New(rand.NewPCG(seed, 0x77656972))}
	n := 1 + d.IntN(8)
	var b strings.Builder
	fmt.Fprintf(&b, "# weir lab random --seed %d\nname: random mix, seed %d\nlink: {bandwidth: 100mbit}\nworkloads:\n", seed, seed)
	for i, p := range d.policies(n) {
		fmt.Fprintf(&b, "  c%d: {%s, traffic: [{tcp: {streams: %d}}]}\n", i+1, p, 1+d.IntN(3))
	}
	fmt.Fprint(&b, "phases:\n  - {for: 6s}\n  - for: 6s\n    set:\n")
	awake := d.IntN(n) // at least this one goes on sending
	for i, p := range d.policies(n) {
		traffic := ""
		if i != awake && d.IntN(4) == 0 {
			traffic = ", traffic: off"
		}
		fmt.Fprintf(&b, "      c%d: {%s%s}\n", i+1, p, traffic)
	}
	fmt.Fprint(&b, "expect:\n  - {scheduler: fair, rate: ideal, within: 2mbit}\n  - {scheduler: fair, bounds: held, within: 1mbit}\n")
	return []byte(b.String())
}

// dice are random choices.
type dice struct{ *rand.Rand }

// policies for n workloads whose mins fit into the link of 100 Mbit/s together.
func (d *dice) policies(n int) []string {
	room := 100 // Mbit/s left for mins
	var list []string
	for range n {
		text, least := fmt.Sprintf("weight: %d", 1+d.IntN(10)), 1
		text += ", min: "
		if m := 1 + d.IntN(40); d.IntN(3) == 0 && m <= room {
			room, least = room-m, m
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

// RunRandom runs the random scenarios of count seeds, from the given one on, with
// Options.Scheduler or else fair. Each scenario's name in the report has its
// seed; Options.Files is not looked at.
func RunRandom(ctx context.Context, o Options, seed uint64, count int) (exit int, err error) {
	o.Files = []string{"random"}
	if err := o.check(); err != nil {
		return ExitInvalid, err
	}
	if count < 1 {
		return ExitInvalid, fmt.Errorf("count %d: must be at least 1", count)
	}
	for i := range uint64(count) {
		file, data := fmt.Sprintf("random-%d.yaml", seed+i), Random(seed+i)
		s, err := scenario.Parse(file, data)
		if err != nil {
			return ExitBroken, fmt.Errorf("the random scenario of seed %d is not valid: %w", seed+i, err)
		}
		status, err := o.one(ctx, loaded{s, data})
		if err != nil {
			return ExitBroken, fmt.Errorf("seed %d: %w", seed+i, err)
		}
		if status != ExitOK {
			fmt.Fprintf(o.Stderr, "seed %d fails; the scenario is:\n%s", seed+i, data)
		}
		exit = max(exit, status)
	}
	return exit, nil
}
