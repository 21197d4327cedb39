// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"math"
	"strings"
)

// Bars are groups of bars with one of each kind: beside each other, or on top of each other.
type Bars struct {
	Title   string
	Unit    string // of the values
	Across  string // what the groups are
	Groups  []string
	Kinds   []string
	Values  [][]float64 // by group, then kind; NaN is left out
	Noise   [][]float64 // how far a value may be off, in the same order; nil: not known
	Low     float64     // the lower end, below 0 if values are
	Log     bool        // Low is above 0 then
	Stacked bool
}

// SVG returns the picture.
func (b Bars) SVG() []byte {
	low, high := bounds(b.Low, b.most())
	c := begin(b.Title, b.Unit, b.Across, b.Kinds, low, high, b.Log)
	group := float64(right-left) / float64(len(b.Groups))
	base := c.y(max(0, low))
	if b.Log {
		base = bottom
	}
	for g := range b.Groups {
		from := left + group*float64(g)
		c.text(from+group/2, bottom+18, size, "middle", upper(b.Groups[g]))
		c.text(from+group/2, bottom+33, size, "middle", lower(b.Groups[g]))
		b.bars(c, g, from+group*0.08, group*0.84, base)
	}
	c.line(left, bottom, right, bottom, 1, "#444444")
	return c.end()
}

// bars draws one group, from x on.
func (b Bars) bars(c *canvas, g int, x, width, base float64) {
	each := width / float64(len(b.Kinds))
	sum := 0.0
	for k := range b.Kinds {
		v := b.Values[g][k]
		switch {
		case math.IsNaN(v):
		case b.Stacked:
			from := c.y(sum)
			sum += v
			c.box(x+width*0.2, c.y(sum), width*0.6, from-c.y(sum), colour(k))
		default:
			at := x + each*float64(k)
			y := c.y(v)
			c.box(at, min(y, base), each*0.92, max(1, math.Abs(base-y)), colour(k))
			if b.Noise != nil && b.Noise[g][k] > 0 {
				c.line(at+each*0.46, c.y(v-b.Noise[g][k]), at+each*0.46, c.y(v+b.Noise[g][k]), 1.2, "#000000")
			}
		}
	}
}

// most is the highest that is drawn.
func (b Bars) most() float64 {
	most := math.Inf(-1)
	for g, row := range b.Values {
		sum := 0.0
		for k, v := range row {
			if math.IsNaN(v) {
				continue
			}
			if b.Noise != nil {
				v += b.Noise[g][k]
			}
			sum += v
			if b.Stacked {
				v = sum
			}
			most = max(most, v)
		}
	}
	return most
}

// upper and lower are the two lines of a group's name: it is broken at a new line.
func upper(name string) string {
	line, _, _ := strings.Cut(name, "\n")
	return line
}

func lower(name string) string {
	_, line, _ := strings.Cut(name, "\n")
	return line
}
