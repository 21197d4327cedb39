// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/cluster/optimize"
	"weir/internal/cluster/sim"
	"weir/internal/dev/charts"
	"weir/internal/dev/figures"
	"weir/internal/dev/markdown"
)

const (
	pageName = "c-balancer-optimizer"
	pages    = "docs/papers"
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

// scenarios is where the mixes are, from the module's root.
const scenarios = "lab/c-balancer"

// Page is docs/papers/c-balancer-optimizer.md and its plots, by their paths from the module's
// root, made from the data. Nil if the data is not there.
func Page(data *figures.Runs) (map[string][]byte, error) {
	planned, alphas := data.Run(plansRun), data.Run(alphaRun)
	if planned == nil || alphas == nil {
		return nil, nil
	}
	w := &writer{plots: map[string][]byte{}}
	w.Line(head, launches, planned.Source.Measured(), planned.Source.Date)
	mixes, err := readLines[mixPlans](planned)
	if err != nil {
		return nil, err
	}
	if err := w.stability(mixes); err != nil {
		return nil, err
	}
	if err := w.mutations(data.Run(mutationRun)); err != nil {
		return nil, err
	}
	if err := w.gains(mixes, data.Run(togetherRun)); err != nil {
		return nil, err
	}
	lines, err := readLines[alphaLine](alphas)
	if err != nil {
		return nil, err
	}
	if err := w.sweep(lines); err != nil {
		return nil, err
	}
	w.Line("%s", reading)
	made := map[string][]byte{pages + "/" + pageName + ".md": []byte(w.String())}
	for name, picture := range w.plots {
		made[pages+"/"+pageName+"/"+name] = picture
	}
	return made, nil
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

// writer is the page as it grows, and its plots by name.
type writer struct {
	markdown.Writer
	plots map[string][]byte
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
func (w *writer) stability(mixes []mixPlans) (err error) {
	w.Line("## Figure 10(b): S of the workload mixes\n\n%s\n", stabilityText)
	w.Head("mix", "programs", "S, spread", "genetic: reduced", "moves", "local search: reduced", "moves", "at the genetic's moves: reduced", "moves")
	var bars [][]float64
	var names []string
	planners := []planner{byGenetic, byLocal, byLimited}
	var reduced, moves [3]float64 // means
	worse := []string{}
	for _, m := range mixes {
		cells := []string{m.Mix, m.Programs, scientific(m.SSpread)}
		bar := []float64{1}
		for i, by := range planners {
			p := m.Plans[by]
			cells = append(cells, percent(p.Reduced), mean(p.Moves))
			bar = append(bar, 1-p.Reduced)
			reduced[i] += p.Reduced / float64(len(mixes))
			moves[i] += p.Moves / float64(len(mixes))
		}
		if m.Plans[byLimited].Reduced < m.Plans[byGenetic].Reduced-0.0005 {
			worse = append(worse, m.Mix)
		}
		w.Row(cells...)
		bars, names = append(bars, bar[:3]), append(names, m.Mix)
	}
	cells := []string{"**mean**", "", ""}
	for i := range planners {
		cells = append(cells, "**"+percent(reduced[i])+"**", mean(moves[i]))
	}
	w.Row(cells...)
	w.Line("\nThe paper: 61 %% on average over its mixes, 85 %% for W9.\n")
	w.claim(reduced[0] >= 0.61, "With the mutation that Weir takes the genetic algorithm reduces S by as much as in the paper. That is no evidence: the mutation was chosen for it ([others](#figure-10b-with-other-mutations)).", percent(reduced[0])+" on average")
	w.claim(len(worse) == 0, "With no more moves than it has made, the local search reduces S at least as much in every mix.", "less in "+orNone(worse))
	w.Line("\n![S of each mix, as a part of what spread has](%s/fig10b.svg)\n", pageName)
	w.plots["fig10b.svg"] = stabilityChart(names, bars)
	return nil
}

// mutations is figure 10(b) with other probabilities of a mutation, which the paper does not print.
func (w *writer) mutations(r *figures.Run) error {
	w.Line("\n## Figure 10(b) with other mutations\n\n%s\n", mutationText)
	if r == nil {
		w.Line("Not calculated; `go run ./internal/dev/papers balancer mutation` does it.\n")
		return nil
	}
	lines, err := readLines[mutationLine](r)
	if err != nil {
		return err
	}
	w.Head("mutated genes of a child", "S reduced, mean of the mixes", "W9", "the least of a mix", "the most", "moves")
	curves := [][]charts.CurvePoint{nil, nil}
	least, most := 1.0, 0.0
	for _, line := range lines {
		var mean, low, high = 0.0, 1.0, 0.0
		for _, mix := range slices.Sorted(maps.Keys(line.Reduced)) {
			v := line.Reduced[mix]
			mean, low, high = mean+v/float64(len(line.Reduced)), min(low, v), max(high, v)
		}
		least, most = min(least, mean), max(most, mean)
		w.Row(fmt.Sprintf("%g", line.Mutation), percent(mean), percent(line.Reduced["W9"]), percent(low), percent(high), fmt.Sprintf("%.1f", line.Moves))
		curves[0] = append(curves[0], charts.CurvePoint{X: line.Mutation, Y: 100 * mean})
		curves[1] = append(curves[1], charts.CurvePoint{X: line.Mutation, Y: 100 * line.Reduced["W9"]})
	}
	w.Line("\nCommit %s, %s.\n", r.Source.Measured(), r.Source.Date)
	w.claim(least >= 0.61, "S is reduced by the paper's 61 % on average whatever the mutation is.", "from "+percent(least)+" to "+percent(most))
	w.Line("\n![Reduction of S by the mutation](%s/fig10b-mutation.svg)\n", pageName)
	w.plots["fig10b-mutation.svg"] = charts.LineChart{Title: "C-Balancer, figure 10(b): reduction of S by the mutation", Unit: "S reduced, %",
		Across: "genes of a child that become a random node, on average", Kinds: []string{"mean of the ten mixes", "W9"}, Curves: curves, Level: 61}.SVG()
	return nil
}

// claim prints a conclusion, whether it holds, and what was seen.
func (w *writer) claim(holds bool, says, seen string) {
	verdict := "Does not hold"
	if holds {
		verdict = "Holds"
	}
	w.Line("* %s **%s**: %s.", says, verdict, seen)
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
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
func (w *writer) sweep(lines []alphaLine) (err error) {
	w.Line("## Figure 5: alpha\n\n%s\n", sweepText)
	w.Head("alpha", "genetic: S", "moves", "local search: S", "moves")
	curves := map[sim.Algorithm]*curve{}
	for step, line := range lines {
		cells := []string{fmt.Sprintf("%.2f", line.Alpha)}
		for _, a := range algorithms(line.S) {
			cells = append(cells, percent(line.S[a]), percent(line.Moves[a]))
			if curves[a] == nil {
				curves[a] = &curve{}
			}
			curves[a].add(line.Alpha, line.S[a], line.Moves[a])
		}
		if step%2 == 0 || line.Alpha == optimize.DefaultAlpha {
			w.Row(cells...)
		}
	}
	w.Line("")
	for _, a := range slices.Sorted(maps.Keys(curves)) {
		name := "fig05-" + string(a)
		w.Line("![S and moves by alpha, %s](%s/%s.svg)\n", a, pageName, name)
		w.plots[name+".svg"] = curves[a].plot("C-Balancer, figure 5: S and moves by alpha, " + string(a))
	}
	return nil
}

func scientific(v float64) string { return fmt.Sprintf("%.2e", v) }
func percent(v float64) string    { return fmt.Sprintf("%.1f %%", v*100) }
func mean(v float64) string       { return fmt.Sprintf("%.1f", v) }
