// SPDX-License-Identifier: Apache-2.0

// Package floor writes the tables of docs/cost.md from the rows of a cost measurement: what a
// packet costs before Weir does anything, and in which functions its instructions go. Example:
// if the null BPF qdisc adds 890 instructions with marking and Weir's default 1,050, Weir's
// own part is 160.
//
// It reads no files; package papers has the rows from docs/papers/data.
package floor

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"weir/internal/dev/markdown"
	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// NullMarked is the null BPF qdisc with marking: the platform's part of what Weir adds.
const NullMarked = "bpf-null+mark"

// Default is what Weir does where nothing is said.
const Default = "fair+sfq"

// Row returns a scheduler's row of a case; the error says that there is none.
func Row(rows []report.CostRow, scheduler, of string) (report.CostRow, error) {
	for _, r := range rows {
		if r.Scheduler == scheduler && r.Case == of {
			return r, nil
		}
	}
	return report.CostRow{}, fmt.Errorf("%s was not measured in case %s", scheduler, of)
}

// floors are the rows of the table of what is added.
var floors = [][2]string{
	{"none, marked", "marking alone"},
	{"root-pfifo", "a FIFO of the kernel's"},
	{"root-pfifo+mark", "the same, marked"},
	{"pfifo+mark", "the same below a token bucket (tbf)"},
	{"bpf-null", "the null BPF qdisc: a FIFO without policy"},
	{NullMarked, "the same, marked: **the platform's part**"},
	{"fair", "Weir, a FIFO for each workload"},
	{Default, "Weir's default: flow queues with CoDel"},
}

// Added returns the table of what each floor adds to a packet, and the sentence on what of
// Weir's is its own.
func Added(rows []report.CostRow) (string, error) {
	table, added := [][]string{{"", "what it is", "instructions added"}}, map[string]float64{}
	for _, f := range floors {
		r, err := Row(rows, f[0], scenario.CostVeths)
		if err != nil {
			return "", err
		}
		added[f[0]] = r.Added()
		table = append(table, []string{"`" + f[0] + "`", f[1], markdown.Thousands(r.Added())})
	}
	platform := added[NullMarked]
	return markdown.Table(table...) + fmt.Sprintf("\n**Weir's own part** is %s instructions with FIFOs and %s by default; %s are the platform's and the marking's.",
		markdown.Thousands(added["fair"]-platform), markdown.Thousands(added[Default]-platform), markdown.Thousands(platform)), nil
}

// leastShown bounds the functions of the table: instructions per packet by which two
// schedulers differ. What is below is noise in part.
const leastShown = 15

// Functions returns the table of the functions in which a packet's instructions go: without a
// qdisc, with the null BPF qdisc, and with Weir.
func Functions(rows []report.CostRow) (string, error) {
	var columns [3]map[string]float64
	var totals [3]float64
	var names []string
	for i, scheduler := range []string{"none", NullMarked, Default} {
		r, err := Row(rows, scheduler, scenario.CostVeths)
		if err != nil {
			return "", err
		}
		if r.Functions == nil {
			return "", fmt.Errorf("the functions of %s were not measured", scheduler)
		}
		columns[i], totals[i] = map[string]float64{}, r.NsPerPacket
		for _, f := range r.Functions {
			columns[i][f.Name] = f.NsPerPacket
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	none, null, weir := columns[0], columns[1], columns[2]
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(weir[b]-none[b], weir[a]-none[a]), cmp.Compare(a, b))
	})
	table := [][]string{{"function", "no qdisc", "null BPF qdisc, marked", "Weir's default", "the platform adds", "Weir adds"}}
	add := func(name string, a, b, c float64) {
		table = append(table, []string{name, markdown.Thousands(a), markdown.Thousands(b), markdown.Thousands(c), signed(b - a), signed(c - b)})
	}
	rest := totals
	for _, name := range names {
		a, b, c := none[name], null[name], weir[name]
		if math.Abs(b-a) < leastShown && math.Abs(c-b) < leastShown {
			continue
		}
		add("`"+name+"`", a, b, c)
		rest[0], rest[1], rest[2] = rest[0]-a, rest[1]-b, rest[2]-c
	}
	add("all others", rest[0], rest[1], rest[2])
	add("**a packet's whole way**", totals[0], totals[1], totals[2])
	return markdown.Table(table...), nil
}

// signed writes a whole number with its sign, 0 without one.
func signed(v float64) string {
	if math.Round(v) > 0 {
		return "+" + markdown.Thousands(v)
	}
	return markdown.Thousands(v)
}
