// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"weir/internal/cluster/optimize"
)

// gain adds up what an algorithm's moves do to the containers of a mix.
type gain struct {
	change                float64 // sum over the containers of the relative change of their rates
	containers            int
	calculated            int      // containers whose figure after the moves is
	lostBefore, lostAfter float64  // percent, sums over iperf's containers
	iperfs                int      // containers
	missing               []string // what was not measured
}

// add takes the containers of one launch.
func (g *gain) add(f fares, programs []string, before, after optimize.Placement) {
	was, is := companies(before, programs), companies(after, programs)
	for c, program := range programs {
		old, known := f.speed(program, was[c])
		now, too := f.speed(program, is[c])
		if !known || !too {
			g.missing = append(g.missing, fmt.Sprintf("%s in %s or %s", program, was[c], is[c]))
			continue
		}
		g.containers++
		g.change += now.relative/old.relative - 1
		if now.calculated {
			g.calculated++
		}
		if strings.HasPrefix(program, "iperf") {
			g.iperfs++
			g.lostBefore += old.lost
			g.lostAfter += now.lost
		}
	}
}

// mean change, 0.1 = 10 % more operations; false if something was not measured.
func (g *gain) mean() (float64, bool) {
	if g.containers == 0 || len(g.missing) > 0 {
		return 0, false
	}
	return g.change / float64(g.containers), true
}

// lost says how many packets iperf lost before and after.
func (g *gain) lost() string {
	if _, known := g.mean(); !known || g.iperfs == 0 {
		return ""
	}
	n := float64(g.iperfs)
	return fmt.Sprintf("%.2f -> %.2f %%", g.lostBefore/n, g.lostAfter/n)
}

// cells are the mean change, how much of it is calculated, and the lost packets.
func (g *gain) cells() []string {
	change, known := g.mean()
	if !known {
		return []string{"not measured", "", ""}
	}
	return []string{fmt.Sprintf("%+.1f %%", change*100), fmt.Sprintf("%.0f %%", 100*float64(g.calculated)/float64(g.containers)), g.lost()}
}

// paperGains are the paper's mean changes as far as its text has them: the figure has
// no numbers.
var paperGains = map[string]float64{"W9": 0.58}

// gains is figure 10(a): what the programs of each mix gain by the moves.
func (w *writer) gains(mixes []mix, lists [][]launched, scenarios, folder string) error {
	name := filepath.Join(scenarios, "together.yaml")
	w.line("## Figure 10(a): what the programs gain\n\n%s\n", gainsText)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		w.line("Not measured: %s is not there.\n", name)
		return nil
	}
	if err != nil {
		return err
	}
	f, err := readTogether(name, text)
	if err != nil {
		return err
	}
	return w.gainTable(f, mixes, lists, folder)
}

// gainTable has a row for each mix.
func (w *writer) gainTable(f fares, mixes []mix, lists [][]launched, folder string) error {
	w.head("mix", "genetic: change", "calculated", "lost packets", "local search: change", "calculated", "lost packets", "paper")
	var names []string
	var bars [][]float64
	var sums [2]float64
	for i, m := range mixes {
		both := bothGains(f, m, lists[i])
		paper, cell := paperGains[m.file.Name], ""
		if paper != 0 {
			cell = fmt.Sprintf("%+.0f %%, the most of all", paper*100)
		}
		w.row(append(append(append([]string{m.file.Name}, both[0].cells()...), both[1].cells()...), cell)...)
		genetic, known := both[0].mean()
		local, too := both[1].mean()
		if known && too {
			names, bars = append(names, m.file.Name), append(bars, []float64{genetic, local, paper})
			sums[0] += genetic
			sums[1] += local
		}
	}
	if len(bars) == 0 {
		w.line("")
		return nil
	}
	n := float64(len(bars)) / 100
	w.row(fmt.Sprintf("**mean of %d**", len(bars)), fmt.Sprintf("**%+.1f %%**", sums[0]/n), "", "", fmt.Sprintf("**%+.1f %%**", sums[1]/n), "", "", "")
	w.line("\n![Change of the programs' rates in each mix](%s/fig10a.svg)\n", pageName)
	return gainChart(filepath.Join(folder, "fig10a.svg"), names, bars)
}

// bothGains are those by the genetic algorithm and by the local search.
func bothGains(f fares, m mix, list []launched) (both [2]gain) {
	for _, l := range list {
		both[0].add(f, m.programs(), l.at, l.genetic.Plan.Placement)
		both[1].add(f, m.programs(), l.at, l.local.Plan.Placement)
	}
	return both
}

// gainChart draws the genetic algorithm's, the local search's and the paper's.
func gainChart(file string, names []string, bars [][]float64) error {
	low, high := 0.0, 0.1
	for _, list := range bars {
		for _, v := range list {
			low, high = math.Min(low, v), math.Max(high, v)
		}
	}
	return barChart(file, "Figure 10(a): what the programs gain", "change of the rates, 0.1 = 10 % more", low*1.1, high*1.4,
		names, []string{"genetic", "local search", "the paper's, as far as its text has it"}, bars)
}
