// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weir/internal/cluster/optimize"
	"weir/internal/dev/figures"
)

// gain is the effect of a planner's moves on the containers of a mix.
type gain struct {
	change                float64 // sum over the containers of the relative change of their rates
	containers            int
	calculated            int      // containers whose figure after the moves is
	lostBefore, lostAfter float64  // percent, sums over iperf's containers
	iperfs                int      // containers
	missing               []string // what was not measured
	noise                 float64  // of the mean change
}

// gainOf is the gain by what was measured, with its noise: the change of the mean when each
// measured rate in turn is moved by half its range up and down, all of them taken together as
// independent errors are.
func gainOf(f outcomes, list []changed) gain {
	g := f.gain(list)
	var squares float64
	for in, of := range f {
		for program, was := range of {
			moved := func(part float64) float64 {
				of[program] = outcome{was.rate * part, was.lost, was.spread}
				v, _ := f.gain(list).mean()
				return v
			}
			if was.spread > 0 && touches(list, in) {
				half := (moved(1+was.spread/2) - moved(1-min(was.spread/2, 0.99))) / 2
				squares += half * half
			}
			of[program] = was
		}
	}
	g.noise = math.Sqrt(squares)
	return g
}

// touches says whether a company, or part of it, is among those of the containers.
func touches(list []changed, in company) bool {
	for _, c := range list {
		if slices.Contains(c.Before.parts(), in) || slices.Contains(c.After.parts(), in) {
			return true
		}
	}
	return false
}

// gain without its noise.
func (f outcomes) gain(list []changed) (g gain) {
	for _, c := range list {
		old, known := f.speed(c.Program, c.Before)
		now, too := f.speed(c.Program, c.After)
		if !known || !too {
			g.missing = append(g.missing, fmt.Sprintf("%s in %s or %s", c.Program, c.Before, c.After))
			continue
		}
		n := float64(c.Count)
		g.containers += c.Count
		g.change += n * (now.relative/old.relative - 1)
		if now.calculated {
			g.calculated += c.Count
		}
		if strings.HasPrefix(c.Program, "iperf") {
			g.iperfs += c.Count
			g.lostBefore += n * old.lost
			g.lostAfter += n * now.lost
		}
	}
	return g
}

// worst names the program that has least of its rate alone after the moves, and beside which.
func (f outcomes) worst(list []changed) string {
	least, where := math.Inf(1), changed{}
	for _, c := range list {
		if now, known := f.speed(c.Program, c.After); known && now.relative < least {
			least, where = now.relative, c
		}
	}
	return fmt.Sprintf("%s in %s %.0f %%", where.Program, where.After, 100*least)
}

// mean change, 0.1 = 10 % more operations; false if something was not measured.
func (g gain) mean() (float64, bool) {
	if g.containers == 0 || len(g.missing) > 0 {
		return 0, false
	}
	return g.change / float64(g.containers), true
}

// lost says how many packets iperf lost before and after.
func (g gain) lost() string {
	if _, known := g.mean(); !known || g.iperfs == 0 {
		return ""
	}
	n := float64(g.iperfs)
	return fmt.Sprintf("%.2f -> %.2f %%", g.lostBefore/n, g.lostAfter/n)
}

// cells are the mean change, how much of it is calculated, and the lost packets.
func (g gain) cells() []string {
	change, known := g.mean()
	if !known {
		return []string{"not measured", "", ""}
	}
	return []string{fmt.Sprintf("%+.1f ± %.1f %%", change*100, g.noise*100), fmt.Sprintf("%.0f %%", 100*float64(g.calculated)/float64(g.containers)), g.lost()}
}

// paperGains are the paper's mean changes as far as its text has them: the figure has
// no numbers.
var paperGains = map[string]float64{"W9": 0.58}

// gains is figure 10(a): what the programs of each mix gain by the moves.
func (w *writer) gains(mixes []mixPlans, measured *figures.Run) error {
	w.Line("## Figure 10(a): what the programs gain\n\n"+gainsText+"\n", 100*optimize.DefaultAbove)
	if measured == nil {
		w.Line("Not measured: %s/%s.jsonl is not there.\n", figures.Folder, togetherRun)
		return nil
	}
	f, err := readTogether(measured)
	if err != nil {
		return err
	}
	w.Line("Measured on %s, kernel %s: %s.\n", measured.Source.Date, measured.Source.Kernel, measured.Source.Machine)
	return w.gainTable(f, mixes)
}

// losses are the mixes that lose by a planner's moves.
type losses struct {
	mixes, unknown []string
	beside         []string // the worst program of each, and with whom it is
	toCaches       bool     // none of them shares a CPU, and no more packets are lost
	moved          []string // mixes in which the planner moves anything
}

// add what a mix gains.
func (l *losses) add(f outcomes, mix string, moves []changed, g gain) {
	if slices.ContainsFunc(moves, func(c changed) bool { return c.Before != c.After }) {
		l.moved = append(l.moved, mix)
	}
	switch change, known := g.mean(); {
	case !known:
		l.unknown = append(l.unknown, mix)
	case change < -g.noise:
		l.mixes = append(l.mixes, mix)
		l.beside = append(l.beside, mix+": "+f.worst(moves))
		l.toCaches = l.toCaches && g.calculated == 0 && g.lostAfter <= g.lostBefore
	}
}

// seen lists them.
func (l *losses) seen() string {
	seen := orNone(l.mixes)
	if len(l.unknown) > 0 {
		seen += ", not measured for " + orNone(l.unknown)
	}
	return seen + "; containers are moved in " + orNone(l.moved)
}

// claims says whether a mix loses by what `weir plan` does by default, and what evening
// out all nodes would do.
func (w *writer) claims(byDefault, even *losses) {
	w.claim(len(byDefault.mixes)+len(byDefault.unknown) == 0, "By what `weir plan` does by default no mix loses more than its noise.", "more in "+byDefault.seen())
	w.Line("* With `--above 0`, mixes lose more than their noise: %s.", even.seen())
	if len(even.mixes) > 0 {
		w.claim(even.toCaches, "What is lost there is lost to caches and the memory's bandwidth, which none of the five metrics shows: each program has a CPU of its own, and no more packets are lost.",
			"what those programs have of their rate alone, at worst, is in "+strings.Join(even.beside, ", in "))
	}
}

// gainTable has a row for each mix.
func (w *writer) gainTable(f outcomes, mixes []mixPlans) (err error) {
	planners := []planner{byGenetic, byLocal, byEven, byWeir}
	lost := map[planner]*losses{}
	head := []string{"mix"}
	for _, by := range planners {
		lost[by] = &losses{toCaches: true}
		head = append(head, planned[by]+": change", "calculated", "lost packets")
	}
	w.Head(append(head, "paper")...)
	var names []string
	var bars, noises [][]float64
	sums := make([]float64, len(planners))
	for _, m := range mixes {
		paper, cell := paperGains[m.Mix], ""
		if paper != 0 {
			cell = fmt.Sprintf("%+.0f %%, the most of all", paper*100)
		}
		cells, bar, noise, all := []string{m.Mix}, []float64{}, []float64{}, true
		for _, by := range planners {
			g := gainOf(f, m.Plans[by].Fates)
			change, known := g.mean()
			all = all && known
			cells, bar, noise = append(cells, g.cells()...), append(bar, change), append(noise, g.noise)
			lost[by].add(f, m.Mix, m.Plans[by].Fates, g)
		}
		w.Row(append(cells, cell)...)
		if all {
			names, bars, noises = append(names, m.Mix), append(bars, append(bar, paper)), append(noises, append(noise, 0))
			for i := range sums {
				sums[i] += bar[i]
			}
		}
	}
	if len(bars) == 0 {
		w.Line("")
		return nil
	}
	cells := []string{fmt.Sprintf("**mean of %d**", len(bars))}
	for _, s := range sums {
		cells = append(cells, fmt.Sprintf("**%+.1f %%**", 100*s/float64(len(bars))), "", "")
	}
	w.Row(append(cells, "")...)
	w.Line("")
	w.claims(lost[byWeir], lost[byEven])
	w.Line("\n![Change of the programs' rates in each mix, with their noise](%s/fig10a.svg)\n", pageName)
	w.plots["fig10a.svg"] = gainChart(names, bars, noises)
	return nil
}

// planned are the planners of the table, for its head.
var planned = map[planner]string{byGenetic: "genetic", byLocal: "local search", byEven: "`weir plan --above 0`", byWeir: "`weir plan`"}
