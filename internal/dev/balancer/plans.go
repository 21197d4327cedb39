// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"weir/internal/cluster/optimize"
	"weir/internal/cluster/sim"
	"weir/internal/dev/figures"
)

// The runs that the page is made of.
const (
	plansRun    = pageName + "/plans"
	alphaRun    = pageName + "/alpha"
	mutationRun = pageName + "/mutation"
	togetherRun = "c-balancer-together/together"
)

// planner names an algorithm that plans for a mix, as each seed launches it.
type planner string

// The planners. Limited is the local search with no more moves than the genetic algorithm
// has made; weir is the local search as `weir plan` runs it by default: S of the load, moves
// that cost their bytes, and nodes left alone that are short of nothing; even is the same
// for all nodes, `weir plan --above 0`.
const (
	byGenetic planner = "genetic"
	byLocal   planner = "local"
	byLimited planner = "limited"
	byWeir    planner = "weir"
	byEven    planner = "even"
)

// mixPlans is a line of the data: what the planners make of a mix, over all launches.
type mixPlans struct {
	Mix      string             `json:"mix"`
	Programs string             `json:"programs"` // as the file has them
	SSpread  float64            `json:"s_spread"` // mean over the launches, by the paper's measure
	Plans    map[planner]*plans `json:"plans"`
}

// plans of one planner.
type plans struct {
	Reduced float64   `json:"reduced"` // part of S, by the planner's own measure
	Moves   float64   `json:"moves"`   // mean over the launches
	Fates   []changed `json:"fates"`   // of all containers of all launches
}

// changed is how many containers of a program shared a node with whom, before and after.
type changed struct {
	Program string  `json:"program"`
	Before  company `json:"before"`
	After   company `json:"after"`
	Count   int     `json:"count"`
}

// alphaLine is a line of the data: S and moves at an alpha, means over mixes and seeds, as
// parts of spread's and of all containers.
type alphaLine struct {
	Alpha float64                   `json:"alpha"`
	S     map[sim.Algorithm]float64 `json:"s"`
	Moves map[sim.Algorithm]float64 `json:"moves"`
}

// mutationLine is a line of the data: what the genetic algorithm does with a mutation, which the
// paper does not print.
type mutationLine struct {
	Mutation float64            `json:"mutation"`
	Reduced  map[string]float64 `json:"reduced"` // part of S, by mix: a mean over seeds
	Moves    float64            `json:"moves"`   // mean over mixes and seeds
}

// mutations that are tried: genes of a child that become a random node, on average.
var mutations = []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}

// mutate lets the genetic algorithm plan for each mix with each mutation, from the paper's random
// start.
func mutate(mixes []mix) (list []any, err error) {
	for _, mutation := range mutations {
		line := mutationLine{Mutation: mutation, Reduced: map[string]float64{}}
		for _, m := range mixes {
			var t tally
			for seed := range uint64(sweeps) {
				p, err := m.problem(seed)
				if err != nil {
					return nil, err
				}
				o := sim.Options{Options: optimize.Options{Alpha: optimize.DefaultAlpha, Seed: seed}, Genetic: optimize.GeneticOptions{Mutation: mutation}}
				r, err := sim.Run(p, sim.Genetic, o, func() time.Duration { return 0 })
				if err != nil {
					return nil, err
				}
				t.add(r)
				line.Moves += float64(r.Moves) / sweeps / float64(len(mixes))
			}
			line.Reduced[m.file.Name] = t.reduction()
		}
		list = append(list, line)
	}
	return list, nil
}

// writeMutations writes the data of that.
func writeMutations(root string) error {
	mixes, err := readMixes(filepath.Join(root, scenarios))
	if err != nil {
		return err
	}
	lines, err := mutate(mixes)
	if err != nil {
		return err
	}
	return writeRun(root, mutationRun, "calculated", "go run ./internal/dev/papers balancer mutation", lines)
}

// asWeir is the mix as `weir plan --above` looks at it.
func (m mix) asWeir(above float64) mix {
	f := *m.file
	f.Measure, f.CountMoves, f.Above = "", false, above
	return mix{&f, m.name}
}

// plans of all planners for a mix.
func (m mix) plans() (*mixPlans, error) {
	list, err := m.launch()
	if err != nil {
		return nil, err
	}
	line := &mixPlans{Mix: m.file.Name, Programs: programsOf(m), Plans: map[planner]*plans{}}
	programs := m.programs()
	for _, by := range []planner{byGenetic, byLocal, byLimited, byEven, byWeir} {
		var t tally
		fates := map[changed]int{}
		for seed, l := range list {
			r, err := m.by(by, l, uint64(seed))
			if err != nil {
				return nil, err
			}
			t.add(r)
			at := r.Plan.Placement
			if at == nil {
				at = l.at
			}
			was, is := companies(l.at, programs), companies(at, programs)
			for c, program := range programs {
				fates[changed{Program: program, Before: was[c], After: is[c]}]++
			}
		}
		if by == byGenetic {
			line.SSpread = t.before / launches
		}
		p := &plans{Reduced: t.reduction(), Moves: t.moves / launches}
		for f, n := range fates {
			f.Count = n
			p.Fates = append(p.Fates, f)
		}
		slices.SortFunc(p.Fates, func(a, b changed) int {
			return bytes.Compare(fmt.Append(nil, a.Program, " ", a.Before, " ", a.After), fmt.Append(nil, b.Program, " ", b.Before, " ", b.After))
		})
		line.Plans[by] = p
	}
	return line, nil
}

// by returns a planner's result for one launch.
func (m mix) by(by planner, l launched, seed uint64) (sim.Result, error) {
	switch by {
	case byGenetic:
		return l.genetic, nil
	case byLocal:
		return l.local, nil
	case byLimited:
		if l.genetic.Moves == 0 {
			return l.genetic, nil
		}
		p, err := m.problem(seed)
		if err != nil {
			return sim.Result{}, err
		}
		return plan(p, sim.Local, optimize.DefaultAlpha, seed, l.genetic.Moves)
	}
	above := 0.0
	if by == byWeir {
		above = optimize.DefaultAbove
	}
	p, err := m.asWeir(above).problem(seed)
	if err != nil {
		return sim.Result{}, err
	}
	return plan(p, sim.Local, optimize.DefaultAlpha, seed, 0)
}

// sweep is figure 5: S and moves by alpha.
func sweep(mixes []mix) (list []alphaLine, err error) {
	for step := 0; step <= 20; step++ {
		line := alphaLine{float64(step) / 20, map[sim.Algorithm]float64{}, map[sim.Algorithm]float64{}}
		for _, a := range []sim.Algorithm{sim.Genetic, sim.Local} {
			for _, m := range mixes {
				var t tally
				for seed := range uint64(sweeps) {
					p, err := m.problem(seed)
					if err != nil {
						return nil, err
					}
					r, err := plan(p, a, line.Alpha, seed, 0)
					if err != nil {
						return nil, err
					}
					t.add(r)
					line.Moves[a] += float64(r.Moves) / float64(r.Containers) / sweeps / float64(len(mixes))
				}
				line.S[a] += t.after / t.before / float64(len(mixes))
			}
		}
		list = append(list, line)
	}
	return list, nil
}

// writePlans lets every planner plan each mix and writes the data.
func writePlans(root string) error {
	mixes, err := readMixes(filepath.Join(root, scenarios))
	if err != nil {
		return err
	}
	var lines []any
	for _, m := range mixes {
		line, err := m.plans()
		if err != nil {
			return err
		}
		fmt.Println(m.file.Name)
		lines = append(lines, line)
	}
	if err := writeRun(root, plansRun, "calculated", "go run ./internal/dev/papers balancer plan", lines); err != nil {
		return err
	}
	list, err := sweep(mixes)
	if err != nil {
		return err
	}
	lines = nil
	for _, line := range list {
		lines = append(lines, line)
	}
	return writeRun(root, alphaRun, "calculated", "go run ./internal/dev/papers balancer plan", lines)
}

// writeRun writes lines as a run's data, of the commit that is checked out.
func writeRun(root, name, machine, command string, lines []any) error {
	commit, err := exec.Command("git", "-C", root, "rev-parse", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse HEAD: %w", err)
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, scenarios, "programs.yaml"))
	if err != nil {
		return err
	}
	r := &figures.Run{Name: name, Source: figures.Origin{
		Scenario: scenarios + "/programs.yaml", Digest: figures.Digest(text),
		Commit: string(bytes.TrimSpace(commit)), Kernel: string(bytes.TrimSpace(kernel)), Seed: 0,
		Date: time.Now().UTC().Format(time.DateOnly), Machine: machine, Command: command,
	}}
	for _, line := range lines {
		text, err := json.Marshal(line)
		if err != nil {
			return err
		}
		r.Lines = append(r.Lines, text)
	}
	return r.Write(root)
}

// readLines reads all results of a run as Ts.
func readLines[T any](r *figures.Run) (list []T, err error) {
	for n, text := range r.Lines {
		var line T
		if err := json.Unmarshal(text, &line); err != nil {
			return nil, fmt.Errorf("%s/%s.jsonl:%d: %w", figures.Folder, r.Name, n+2, err)
		}
		list = append(list, line)
	}
	return list, nil
}

// algorithms of a line, sorted.
func algorithms(m map[sim.Algorithm]float64) []sim.Algorithm { return slices.Sorted(maps.Keys(m)) }
