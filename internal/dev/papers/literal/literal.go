// SPDX-License-Identifier: Apache-2.0

// Package literal lays what the qCon and ANCS papers' words give, taken literally, beside what Weir
// promises: calculated, with no run of the lab.
package literal

import (
	"embed"
	"fmt"
	"strings"

	"weir/internal/core/policy"
	"weir/internal/dev/charts"
	"weir/internal/dev/markdown"
	"weir/internal/dev/papers/algorithm1"
	"weir/internal/dev/papers/flowchart"
	"weir/internal/lab/scenario"
)

//go:embed text
var texts embed.FS

// Section is one paper's words.
type Section struct {
	Title   string // of the section
	Picture string // the name of the picture
	Heading string // the picture's title
	text    string // the name of its text, and of that with -why
	kinds   []loop
	cases   []printedCase
}

// loop is one reading: rates of workloads, of which some want nothing.
type loop struct {
	name  string
	rates func(capacity float64, list []scenario.Policy, idle func(int) bool) []float64
}

// printedCase is one division that the page shows.
type printedCase struct {
	name string // "figure 9, case 2": a new line where a picture may break it
	list []scenario.Policy
	idle map[int]bool
}

// Write returns the section's text behind its heading, without the picture, and the picture.
func (l Section) Write() (text string, svg []byte) {
	const capacity = 100e6
	var w markdown.Writer
	w.Line("%s\n", prose(l.text))
	head := []string{"case", "contract"}
	for _, k := range l.kinds {
		head = append(head, k.name, "of the link")
	}
	w.Head(head...)
	bars := charts.Bars{Title: l.Heading, Unit: "handed out, % of the link", Across: "case"}
	for _, k := range l.kinds {
		bars.Kinds = append(bars.Kinds, k.name)
	}
	for _, c := range l.cases {
		idle := func(i int) bool { return c.idle[i] }
		cells, values := []string{strings.ReplaceAll(c.name, "\n", ", "), rates(promised(capacity, c.list, idle))}, []float64{}
		for _, k := range l.kinds {
			got := k.rates(capacity, c.list, idle)
			part := algorithm1.Sum(got) / capacity
			cells, values = append(cells, rates(got), fmt.Sprintf("%.1f %%", 100*part)), append(values, 100*part)
		}
		w.Row(cells...)
		bars.Groups, bars.Values = append(bars.Groups, c.name), append(bars.Values, values)
	}
	w.Line("\n%s", prose(l.text+"-why"))
	return w.String(), bars.SVG()
}

func prose(name string) string {
	text, err := texts.ReadFile("text/" + name + ".md")
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(string(text), "\n")
}

// rates are written without zeros behind the point.
func rates(list []float64) string {
	var words []string
	for _, v := range list {
		words = append(words, strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.1f", v/1e6), "0"), "."))
	}
	return strings.Join(words, ", ")
}

// promised is the contract of workloads of which some want nothing.
func promised(capacity float64, list []scenario.Policy, idle func(int) bool) []float64 {
	var sharers []policy.Sharer
	for i, p := range list {
		c := policy.Sharer{Weight: p.Weight, Min: p.Min, Max: p.Max, Demand: policy.Unlimited}
		if idle(i) {
			c.Demand = 0
		}
		sharers = append(sharers, c)
	}
	var got []float64
	for _, s := range policy.Divide(policy.Rate(capacity), sharers).Shares {
		got = append(got, s.Bps)
	}
	return got
}

// always drops what a reading of workloads that always send does not need.
func always(rates func(capacity float64, list []scenario.Policy) []float64) func(float64, []scenario.Policy, func(int) bool) []float64 {
	return func(capacity float64, list []scenario.Policy, _ func(int) bool) []float64 {
		return rates(capacity, list)
	}
}

// with are policies by weight, min and max in Mbit/s; 0 is none.
func with(list ...[3]int) (policies []scenario.Policy) {
	for _, p := range list {
		policies = append(policies, scenario.Policy{Weight: uint32(p[0]), Min: policy.Rate(p[1]) * 1e6, Max: policy.Rate(p[2]) * 1e6})
	}
	return policies
}

// QCon has the qCon paper's cases with a min or a max, and the example of the order.
var QCon = Section{
	Title: "Three algorithms in one paper", text: "qcon-loops",
	Picture: "printed", Heading: "qCon: what the equations and Algorithm 1 hand out",
	kinds: []loop{{"equations", always(algorithm1.Equations)}, {"Algorithm 1 as printed", always(algorithm1.Printed)}, {"with the balance", always(algorithm1.Rates)}},
	cases: []printedCase{
		{name: "1:1:1\nmax 2nd", list: with([3]int{1, 0, 0}, [3]int{1, 0, 10}, [3]int{1, 0, 0})},
		{name: "figure 9\ncase 2", list: with([3]int{1, 30, 0}, [3]int{2, 0, 0}, [3]int{3, 0, 0}, [3]int{4, 0, 0}, [3]int{5, 0, 0})},
		{name: "figure 9\ncase 3", list: with([3]int{1, 30, 0}, [3]int{2, 20, 0}, [3]int{3, 0, 0}, [3]int{4, 0, 0}, [3]int{5, 0, 0})},
		{name: "figure 9\ncase 5", list: with([3]int{1, 30, 0}, [3]int{2, 20, 0}, [3]int{3, 15, 0}, [3]int{4, 15, 0}, [3]int{5, 0, 0})},
		{name: "figure 10\ncase 2", list: with([3]int{1, 0, 10}, [3]int{1, 0, 0}, [3]int{1, 0, 0}, [3]int{1, 0, 0}, [3]int{1, 0, 0})},
		{name: "figure 10\ncase 5", list: with([3]int{1, 0, 10}, [3]int{1, 0, 10}, [3]int{1, 0, 15}, [3]int{1, 0, 25}, [3]int{1, 0, 0})},
		{name: "figure 11\ncase 2", list: with([3]int{1, 30, 0}, [3]int{2, 0, 0}, [3]int{3, 0, 0})},
		{name: "figure 11\ncase 3", list: with([3]int{1, 30, 0}, [3]int{2, 0, 0}, [3]int{3, 0, 15})},
	},
}

// ANCS has the ANCS paper's cases, by its flow chart.
var ANCS = Section{
	Title: "The flow chart, taken literally", text: "ancs-loops",
	Picture: "literal", Heading: "ANCS: what is sent by the flow chart's words alone",
	kinds: []loop{{"the flow chart", flowchart.Rates}},
	cases: []printedCase{
		{name: "figure 5\ncase 1", list: with([3]int{1, 0, 0}, [3]int{2, 0, 0}, [3]int{3, 0, 0}, [3]int{4, 0, 0}, [3]int{5, 0, 0})},
		{name: "figure 5\ncase 2", list: with([3]int{1, 0, 0}, [3]int{2, 0, 0}, [3]int{3, 0, 0}, [3]int{4, 0, 0}, [3]int{5, 0, 15})},
		{name: "figure 5\ncase 3", list: with([3]int{1, 20, 0}, [3]int{2, 0, 0}, [3]int{3, 0, 0}, [3]int{4, 0, 0}, [3]int{5, 0, 15})},
		{name: "a min\nalone", list: with([3]int{1, 20, 0}, [3]int{2, 0, 0}, [3]int{3, 0, 0}, [3]int{4, 0, 0}, [3]int{5, 0, 0})},
		{name: "figure 6\ncase 1", list: with([3]int{1, 0, 0}, [3]int{2, 0, 0}, [3]int{3, 0, 0}, [3]int{4, 0, 0}, [3]int{5, 0, 0}), idle: map[int]bool{1: true, 2: true, 3: true, 4: true}},
		{name: "figure 6\ncase 4", list: with([3]int{1, 0, 0}, [3]int{2, 0, 0}, [3]int{3, 0, 0}, [3]int{4, 0, 0}, [3]int{5, 0, 0}), idle: map[int]bool{4: true}},
		{name: "1:1:1\nmax 2nd", list: with([3]int{1, 0, 0}, [3]int{1, 0, 10}, [3]int{1, 0, 0})},
	},
}
