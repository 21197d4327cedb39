// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/internal/cluster/optimize"
	"weir/internal/cluster/sim"
)

// company is the programs that share a node, sorted and joined: "cache+cache+prime".
type company string

func companyOf(programs ...string) company {
	return company(strings.Join(slices.Sorted(slices.Values(programs)), "+"))
}

func (c company) members() []string { return strings.Split(string(c), "+") }

// parts returns the runs that show how each member fares: each alone, and
// every two together.
func (c company) parts() []company {
	var list []company
	members := c.members()
	for i, one := range members {
		list = append(list, companyOf(one))
		for _, other := range members[i+1:] {
			list = append(list, companyOf(one, other))
		}
	}
	return list
}

// companies has for each container the programs on its node, itself among them.
func companies(at optimize.Assignment, programs []string) []company {
	on := map[int][]string{}
	for c, n := range at {
		on[n] = append(on[n], programs[c])
	}
	list := make([]company, len(at))
	for c, n := range at {
		list[c] = companyOf(on[n]...)
	}
	return list
}

// programs returns the containers' programs, in the order of the problem.
func (m mix) programs() []string {
	var list []string
	for _, g := range m.file.Containers {
		list = append(list, slices.Repeat([]string{g.Program}, max(g.Count, 1))...)
	}
	return list
}

// launched is a mix as one seed launches it, and what the algorithms make of it.
type launched struct {
	at             optimize.Assignment // by spread
	genetic, local sim.Result
}

// launch has both algorithms plan for all seeds.
func (m mix) launch() ([]launched, error) {
	var list []launched
	for seed := range uint64(launches) {
		p, err := m.problem(seed)
		if err != nil {
			return nil, err
		}
		l := launched{at: p.Initial()}
		if l.genetic, err = plan(p, sim.Genetic, optimize.DefaultAlpha, seed, 0); err != nil {
			return nil, err
		}
		if l.local, err = plan(p, sim.Local, optimize.DefaultAlpha, seed, 0); err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

func (m mix) problem(seed uint64) (*optimize.Problem, error) {
	f := *m.file
	f.Seed = seed
	p, err := f.Problem()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	return p, nil
}

// plan has an algorithm plan with so many moves at most; 0 = no limit.
func plan(p *optimize.Problem, a sim.Algorithm, alpha float64, seed uint64, most int) (sim.Result, error) {
	return sim.Run(p, a, sim.Options{Options: optimize.Options{Alpha: alpha, Seed: seed, MaxMoves: most}}, func() time.Duration { return 0 })
}

// toRun are the parts of all companies that the mixes meet, before the moves of each planner
// and after them: those alone first.
func toRun(mixes []mix) ([]company, error) {
	parts := map[company]bool{}
	for _, m := range mixes {
		line, err := m.plans()
		if err != nil {
			return nil, err
		}
		for _, p := range line.Plans {
			for _, f := range p.Fates {
				for _, part := range append(f.Before.parts(), f.After.parts()...) {
					parts[part] = true
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(parts), func(a, b company) int {
		return cmp.Or(cmp.Compare(len(a.members()), len(b.members())), cmp.Compare(a, b))
	}), nil
}
