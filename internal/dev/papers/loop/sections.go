// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"math"

	"weir/internal/core/control"
	"weir/internal/dev/charts"
	"weir/internal/dev/markdown"
)

// set of gains of the paper's figure 8.
type set struct {
	panel string
	gains control.Gains
	says  string
}

var sets = []set{
	{"a", control.Gains{Kc: 0.125, Ti: 1, Td: 1}, "slowest rise, no overshoot, settling too long"},
	{"a", control.Paper, "fast, negligible overshoot"},
	{"a", control.Gains{Kc: 0.125, Ti: 0.1136, Td: 1}, "fastest, very large overshoot"},
	{"b", control.Gains{Kc: 0.877, Ti: 1.142, Td: 0.1279}, "oscillates, settles after 40 s"},
	{"b", control.Gains{Kc: 1, Ti: 2, Td: 0.1136}, "larger overshoot, longer"},
}

// lags of the table, in seconds. Forty is that with which the first set of panel b settles after 40
// s.
const forty = 0.163

var lags = []float64{0, 0.1, forty, 0.2, 0.5, 1}

// Figure8 returns the table of all sets on all lags, and both panels with all their curves in one.
func Figure8() (table string, panels map[string][]byte) {
	var w markdown.Writer
	head := []string{"gains", "the paper"}
	for _, lag := range lags {
		head = append(head, fmt.Sprintf("lag %g s", lag))
	}
	w.Head(head...)
	for _, s := range sets {
		cells := []string{s.gains.String(), s.says}
		for _, lag := range lags {
			r := Case{Gains: s.gains, Lag: lag}.Response()
			cells = append(cells, fmt.Sprintf("%.0f %%, %s", 100*r.Overshoot, after(r.Settle)))
		}
		w.Row(cells...)
	}
	return w.String(), map[string][]byte{
		"fig08a-lag": panel("a", 1, "CPS, figure 8(a): three Ti on a network with a lag of 1 s, calculated"),
		"fig08b-lag": panel("b", forty, fmt.Sprintf("CPS, figure 8(b): two sets on a network with a lag of %g s, calculated", forty)),
	}
}

func panel(name string, lag float64, title string) []byte {
	l := charts.LineChart{Title: title, Unit: "goodput, Mbit/s", Across: "seconds", Level: target / 1e6}
	for _, s := range sets {
		if s.panel != name {
			continue
		}
		l.Kinds = append(l.Kinds, s.gains.String())
		points := []charts.CurvePoint{{}}
		for i, v := range (Case{Gains: s.gains, Lag: lag}).Goodput()[:60] {
			points = append(points, charts.CurvePoint{X: float64(i + 1), Y: v / 1e6})
		}
		l.Curves = append(l.Curves, points)
	}
	return l.SVG()
}

func after(seconds float64) string {
	if math.IsNaN(seconds) {
		return "never"
	}
	return fmt.Sprintf("%.0f s", seconds)
}

// Printed returns what the law of the paper's equation 4 does as it is printed, from next to
// nothing and from the target.
func Printed() string {
	var w markdown.Writer
	w.Head("law", "begins at", "after 1 s", "10 s", "60 s")
	for _, c := range []struct {
		law   string
		start string
		of    Case
	}{
		{"as printed", "a hundredth", Case{Gains: control.Paper, Summed: true}},
		{"as printed", "the target, without headers", Case{Gains: control.Paper, Summed: true, Warm: true}},
		{"Weir's", "a hundredth", Case{Gains: control.Paper}},
		{"Weir's", "the target, without headers", Case{Gains: control.Paper, Warm: true}},
	} {
		got := c.of.Goodput()
		w.Row(c.law, c.start, mbit(got[0]), mbit(got[9]), mbit(got[59]))
	}
	return w.String()
}

func mbit(bps float64) string { return fmt.Sprintf("%.2f Mbit/s", bps/1e6) }

// Table2 returns what becomes of the paper's gains if one of K_P, K_I and K_D is doubled.
func Table2() string {
	var w markdown.Writer
	w.Head("", "", "rise time", "overshoot", "settling time", "stability (largest root without lag)")
	base := control.Paper
	for _, lag := range []float64{0, 1} {
		was := Case{Gains: base, Lag: lag}.Response()
		w.Row(fmt.Sprintf("lag %g s", lag), "the paper's gains", after(was.Rise), percent(was.Overshoot), after(was.Settle), fmt.Sprintf("%.2f", base.Radius(1)))
		for _, row := range []struct {
			what                    string
			p, i, d                 float64
			rise, overshoot, settle string // the paper's words
			stability               string
		}{
			{"K_P doubled", 2, 1, 1, "decrease", "increase", "small increase", "degrade"},
			{"K_I doubled", 1, 2, 1, "small decrease", "increase", "increase", "degrade"},
			{"K_D doubled", 1, 1, 2, "small decrease", "decrease", "decrease", "improve"},
		} {
			p, i, d := base.P()*row.p, base.I()*row.i, base.D()*row.d
			g := control.Gains{Kc: p, Ti: p / i, Td: d / p}
			r := Case{Gains: g, Lag: lag}.Response()
			w.Row("", row.what, after(r.Rise)+" (the paper: "+row.rise+")", percent(r.Overshoot)+" ("+row.overshoot+")",
				after(r.Settle)+" ("+row.settle+")", fmt.Sprintf("%.2f (%s)", g.Radius(1), row.stability))
		}
	}
	return w.String()
}

func percent(part float64) string { return fmt.Sprintf("%.0f %%", 100*part) }
