// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"fmt"
	"math"
	"strings"
)

// CurvePoint is a point of a curve.
type CurvePoint struct{ X, Y float64 }

// LineChart is a chart of curves.
type LineChart struct {
	Title  string
	Unit   string // of the values
	Across string // the name of the horizontal axis
	Kinds  []string
	Curves [][]CurvePoint
	At     []float64 // values of the horizontal axis that have a name; nil: round ones
	Level  float64   // a dashed line across; 0 = none
	Most   float64   // the upper end; 0 = what the curves need
}

// SVG returns the picture.
func (l LineChart) SVG() []byte {
	from, to, most := l.Curves[0][0].X, l.Curves[0][0].X, max(l.Level, 0)
	for _, curve := range l.Curves {
		for _, p := range curve {
			from, to, most = min(from, p.X), max(to, p.X), max(most, p.Y)
		}
	}
	if l.Most > 0 {
		most = l.Most
	}
	low, high := bounds(0, most)
	c := begin(l.Title, l.Unit, l.Across, l.Kinds, low, high, false)
	x := func(v float64) float64 { return left + 8 + (v-from)/(to-from)*(right-left-24) }
	at := l.At
	if at == nil {
		step := Step(to - from)
		for n := math.Ceil(from/step - 1e-6); n*step <= to*1.0001; n++ {
			at = append(at, math.Round(n*step*1e6)/1e6+0) // not -0
		}
	}
	for _, v := range at {
		c.text(x(v), bottom+18, size, "middle", fmt.Sprintf("%g", v))
	}
	if l.Level > 0 {
		fmt.Fprintf(c, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#444444" stroke-dasharray="6 4"/>`+"\n", left, c.y(l.Level), right, c.y(l.Level))
	}
	for k, curve := range l.Curves {
		var points []string
		for _, p := range curve {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(p.X), c.y(p.Y)))
			if len(curve) <= 20 {
				fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(p.X), c.y(p.Y), colour(k))
			}
		}
		fmt.Fprintf(c, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour(k))
	}
	c.line(left, bottom, right, bottom, 1, "#444444")
	return c.end()
}
