// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"math"

	"weir/internal/dev/charts"
)

// curve is S and moves by alpha, as parts.
type curve struct{ s, moves []charts.CurvePoint }

func (c *curve) add(alpha, s, moves float64) {
	c.s = append(c.s, charts.CurvePoint{X: alpha, Y: s})
	c.moves = append(c.moves, charts.CurvePoint{X: alpha, Y: moves})
}

// plot draws both, with the paper's alpha.
func (c *curve) plot(title string) []byte {
	return charts.LineChart{
		Title: title, Unit: "part of what it was before", Across: "alpha",
		Kinds:  []string{"S", "moves, as a part of all containers", "the paper's alpha, 0.85"},
		Curves: [][]charts.CurvePoint{c.s, c.moves, {{X: 0.85, Y: 0}, {X: 0.85, Y: 1}}},
	}.SVG()
}

// stabilityChart draws S of each mix before and after.
func stabilityChart(names []string, bars [][]float64) []byte {
	return charts.Bars{Title: "C-Balancer, figure 10(b): S of the workload mixes", Unit: "S as a part of what spread has", Across: "mix",
		Groups: names, Kinds: []string{"spread", "genetic", "local search"}, Values: bars}.SVG()
}

// gainChart draws the planners' and the paper's, with error bars. What the paper does not print is
// not drawn.
func gainChart(names []string, bars, noises [][]float64) []byte {
	values, noise, low := make([][]float64, len(bars)), make([][]float64, len(bars)), 0.0
	for i, list := range bars {
		for k, v := range list {
			low = math.Min(low, 100*(v-noises[i][k]))
			values[i], noise[i] = append(values[i], 100*v), append(noise[i], 100*noises[i][k])
		}
		if last := len(list) - 1; list[last] == 0 {
			values[i][last] = math.NaN()
		}
	}
	return charts.Bars{Title: "C-Balancer, figure 10(a): what the programs gain", Unit: "change of the rates, %", Across: "mix",
		Groups: names, Kinds: []string{"genetic", "local search", "weir plan --above 0", "weir plan", "the paper's, which prints the most of all only"},
		Values: values, Noise: noise, Low: math.Floor(low/10) * 10}.SVG()
}
