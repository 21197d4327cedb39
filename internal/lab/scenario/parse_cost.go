// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"weir/internal/core/plan"
)

// Defaults of a cost measurement: what the documentation's table was made with.
var defaultCost = CostRun{
	Packets:    20000,
	Size:       64,
	Workloads:  []int{1, 10, 100, 1000},
	Schedulers: []string{"none", "pfifo", "htb", plan.SchedulerFair, plan.SchedulerQcon},
	Cases:      CostCases,
}

// The cases of a cost measurement, in the order in which they are measured.
const (
	CostVeths     = "veths"
	CostInside    = "inside"
	CostAll       = "all"
	CostOne       = "one"
	CostFull      = "full"
	CostThrottled = "throttled"
)

// CostCases are all of them.
var CostCases = []string{CostVeths, CostInside, CostAll, CostOne, CostFull, CostThrottled}

// maxCostWorkloads is one less than plan.MaxClasses, because the host has a
// class too.
const maxCostWorkloads = 4095

func (r *reader) cost(n ast.Node, s *Scenario) {
	c := defaultCost
	s.Cost = &c
	if _, ok := n.(*ast.NullNode); ok {
		return
	}
	r.fields(n, "cost", "a mapping such as {packets: 20000}", map[string]field{
		"packets":    r.count(&c.Packets, 100, 10_000_000, "a number of packets"),
		"size":       r.count(&c.Size, 64, DefaultMTU+14, "a frame's size in bytes"),
		"workloads":  func(n ast.Node, path string) { c.Workloads = r.numbers(n, path) },
		"schedulers": func(n ast.Node, path string) { c.Schedulers = r.schedulers(n, path) },
		"cases":      func(n ast.Node, path string) { c.Cases = r.words(n, path, "case", CostCases) },
		"functions":  func(n ast.Node, path string) { c.Functions = contenders(r, n, path) },
	})
}

func (r *reader) numbers(n ast.Node, path string) []int {
	var list []int
	for i, item := range r.items(n, path, "a list such as [1, 10, 100]") {
		v, err := strconv.Atoi(text(item))
		if err != nil || v < 1 || v > maxCostWorkloads {
			r.fail(item, index(path, i), text(item), "needs a whole number from 1 to %d", maxCostWorkloads)
			continue
		}
		list = append(list, v)
	}
	return list
}

func (r *reader) schedulers(n ast.Node, path string) []string {
	return r.words(n, path, "scheduler", Schedulers)
}

// contenders reads schedulers, with what they have inside: fair, fair+sfq.
func contenders(r *reader, n ast.Node, path string) []string {
	return r.each(n, path, "[none, fair+sfq]", func(dst *string) field {
		return func(n ast.Node, path string) {
			*dst = text(n)
			if base, _, _ := strings.Cut(*dst, "+"); !slices.Contains(Schedulers, base) {
				r.word(dst, "scheduler", Schedulers)(n, path)
			}
		}
	})
}

// words reads a list of which each is one of the known ones.
func (r *reader) words(n ast.Node, path, what string, known []string) []string {
	return r.each(n, path, "["+strings.Join(known[:2], ", ")+"]", func(dst *string) field { return r.word(dst, what, known) })
}

// each reads a list, every item by read.
func (r *reader) each(n ast.Node, path, example string, read func(*string) field) []string {
	var list []string
	for i, item := range r.items(n, path, "a list such as "+example) {
		v := ""
		read(&v)(item, index(path, i))
		list = append(list, v)
	}
	return list
}

// scheduler reads the name of one that a link can have.
func (r *reader) scheduler(dst *string) field {
	return func(n ast.Node, path string) {
		if name := text(n); IsScheduler(name) {
			*dst = name
			return
		}
		r.word(dst, "scheduler", Schedulers)(n, path)
	}
}
