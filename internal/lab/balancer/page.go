// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"weir/internal/cluster/optimize"
	"weir/internal/cluster/optimize/sim"
)

const (
	pageName = "c-balancer-optimizer"
	// launches is by how many seeds each mix is launched; the paper has five runs.
	launches = 20
	// sweeps is the same for each alpha of figure 5.
	sweeps = 3
)

// mix is one of W1 to W10.
type mix struct {
	file *sim.File
	name string // of the file
}

// writePage runs everything and writes the page and its plots.
func writePage(scenarios, pages string) error {
	mixes, err := readMixes(scenarios)
	if err != nil {
		return err
	}
	folder := filepath.Join(pages, pageName)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	w := &writer{}
	w.line(head, launches)
	lists := make([][]launched, len(mixes))
	for i, m := range mixes {
		if lists[i], err = m.launch(); err != nil {
			return err
		}
	}
	if err := w.stability(mixes, lists, folder); err != nil {
		return err
	}
	if err := w.gains(mixes, lists, scenarios, folder); err != nil {
		return err
	}
	if err := w.sweep(mixes, folder); err != nil {
		return err
	}
	w.line("%s", reading)
	return os.WriteFile(filepath.Join(pages, pageName+".md"), []byte(w.String()), 0o644)
}

func readMixes(folder string) ([]mix, error) {
	names, err := filepath.Glob(filepath.Join(folder, "w[0-9][0-9].yaml"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("no workload mixes w01.yaml and so on in %s: %w", folder, err)
	}
	var list []mix
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f, err := sim.Parse(name, text, os.ReadFile)
		if err != nil {
			return nil, err
		}
		list = append(list, mix{f, path.Base(name)})
	}
	return list, nil
}

// writer is the page as it grows.
type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

func (w *writer) row(cells ...string) { w.line("| %s |", strings.Join(cells, " | ")) }

func (w *writer) head(cells ...string) {
	w.row(cells...)
	w.line("|%s", strings.Repeat("---|", len(cells)))
}

// tally adds up what an algorithm did over several launches.
type tally struct{ before, after, moves float64 }

func (t *tally) add(r sim.Result) {
	t.before += r.SBefore
	t.after += r.SAfter
	t.moves += float64(r.Moves)
}

// reduction of S, of the sums over the launches.
func (t *tally) reduction() float64 { return 1 - t.after/t.before }

// stability is figure 10(b): S of each mix as spread launches it, and after.
func (w *writer) stability(mixes []mix, lists [][]launched, folder string) error {
	w.line("## Figure 10(b): S of the workload mixes\n\n%s\n", stabilityText)
	w.head("mix", "programs", "S, spread", "genetic: reduced", "moves", "local search: reduced", "moves", "at the genetic's moves: reduced", "moves")
	var bars [][]float64
	var names []string
	var all [3]tally // of each mix's parts
	for number, m := range mixes {
		sums, err := tallies(m, lists[number])
		if err != nil {
			return err
		}
		cells := []string{m.file.Name, programsOf(m), scientific(sums[0].before / launches)}
		bar := []float64{1}
		for i := range sums {
			cells = append(cells, percent(sums[i].reduction()), mean(sums[i].moves/launches))
			bar = append(bar, 1-sums[i].reduction())
			all[i].before++
			all[i].after += 1 - sums[i].reduction()
			all[i].moves += sums[i].moves / launches
		}
		w.row(cells...)
		bars, names = append(bars, bar[:3]), append(names, m.file.Name)
	}
	cells := []string{"**mean**", "", ""}
	for i := range all {
		cells = append(cells, "**"+percent(all[i].reduction())+"**", mean(all[i].moves/float64(len(mixes))))
	}
	w.row(cells...)
	w.line("\nThe paper: 61 %% on average over its mixes, 85 %% for W9.\n")
	w.line("![S of each mix, as a part of what spread has](%s/fig10b.svg)\n", pageName)
	return barChart(filepath.Join(folder, "fig10b.svg"), "Figure 10(b): stability metric S", "S as a part of spread's", 0, 1.3, names, []string{"spread", "genetic", "local search"}, bars)
}

// tallies are of the genetic algorithm, of the local search, and of the local search
// with no more moves than the genetic algorithm has made.
func tallies(m mix, list []launched) (sums [3]tally, err error) {
	for seed, l := range list {
		limited := l.genetic // which has not moved anything, perhaps
		if l.genetic.Moves > 0 {
			p, err := m.problem(uint64(seed))
			if err != nil {
				return sums, err
			}
			if limited, err = plan(p, sim.Local, optimize.DefaultAlpha, uint64(seed), l.genetic.Moves); err != nil {
				return sums, err
			}
		}
		for i, r := range []sim.Result{l.genetic, l.local, limited} {
			sums[i].add(r)
		}
	}
	return sums, nil
}

// programsOf names the programs of a mix as the file has them.
func programsOf(m mix) string {
	var list []string
	for _, g := range m.file.Containers {
		list = append(list, fmt.Sprintf("%d %s", g.Count, g.Program))
	}
	return strings.Join(list, ", ")
}

// sweep is figure 5: S and moves by alpha.
func (w *writer) sweep(mixes []mix, folder string) error {
	w.line("## Figure 5: alpha\n\n%s\n", sweepText)
	w.head("alpha", "genetic: S", "moves", "local search: S", "moves")
	algorithms := []sim.Algorithm{sim.Genetic, sim.Local}
	curves := make([]curve, len(algorithms))
	for step := 0; step <= 20; step++ {
		alpha := float64(step) / 20
		cells := []string{fmt.Sprintf("%.2f", alpha)}
		for i, a := range algorithms {
			var s, moves float64
			for _, m := range mixes {
				var t tally
				for seed := range uint64(sweeps) {
					p, err := m.problem(seed)
					if err != nil {
						return err
					}
					r, err := plan(p, a, alpha, seed, 0)
					if err != nil {
						return err
					}
					t.add(r)
					moves += float64(r.Moves) / float64(r.Containers) / sweeps / float64(len(mixes))
				}
				s += t.after / t.before / float64(len(mixes))
			}
			cells = append(cells, percent(s), percent(moves))
			curves[i].add(alpha, s, moves)
		}
		if step%2 == 0 || alpha == optimize.DefaultAlpha {
			w.row(cells...)
		}
	}
	w.line("")
	for i, a := range algorithms {
		name := "fig05-" + string(a)
		w.line("![S and moves by alpha, %s](%s/%s.svg)\n", a, pageName, name)
		if err := curves[i].plot(filepath.Join(folder, name+".svg"), "Figure 5: "+string(a)); err != nil {
			return err
		}
	}
	return nil
}

func scientific(v float64) string { return fmt.Sprintf("%.2e", v) }
func percent(v float64) string    { return fmt.Sprintf("%.1f %%", v*100) }
func mean(v float64) string       { return fmt.Sprintf("%.1f", v) }
