// SPDX-License-Identifier: Apache-2.0

// Package charts draws the figures that pages make of recorded data: grouped and stacked bars, and
// curves, as SVG. Title, legend, plot and labels have places of their own, one below the other, so
// that no text covers another one or a bar; the test of package main in internal/dev/papers holds
// all pictures to it. A picture is 900 pixels wide.
//
// Plots of a run over time are package report's.
package charts

import (
	"fmt"
	"html"
	"math"
	"strings"

	"weir/internal/lab/report"
)

// The places of a picture, in pixels.
const (
	Width   = 900
	Height  = 420
	left    = 70 // of the plot
	right   = Width - 20
	bottom  = Height - 64 // of the plot; names of the groups and of the axis are below
	title   = 26          // the base line of the title
	legends = 50          // that of the legend's first line
	row     = 18          // from one line of the legend to the next
	size    = 12          // of the letters
	swatch  = 14          // of a colour in the legend
)

// wide is how wide a text is at most.
func wide(text string, size float64) float64 { return 0.58 * size * float64(len([]rune(text))) }

// canvas is an SVG as it grows, with the scale of its vertical axis.
type canvas struct {
	strings.Builder
	top       float64 // of the plot
	low, high float64
	log       bool
}

// begin writes the frame: title, legend, the vertical axis with its unit, and the name of the other
// one.
func begin(heading, unit, across string, kinds []string, low, high float64, log bool) *canvas {
	c := &canvas{low: low, high: high, log: log}
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif">`+"\n", Width, Height, Width, Height)
	fmt.Fprintf(c, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", Width, Height)
	c.text(Width/2, title, 15, "middle", heading)
	x, y := float64(left), float64(legends)
	for k, kind := range kinds {
		if need := swatch + 6 + wide(kind, size) + 18; x+need > right && x > left {
			x, y = left, y+row
		}
		c.box(x, y-swatch+3, swatch, swatch-2, colour(k))
		c.text(x+swatch+6, y, size, "start", kind)
		x += swatch + 6 + wide(kind, size) + 18
	}
	c.top = y + 30
	c.text(left-62, c.top-12, size, "start", unit)
	c.text(Width/2, Height-10, size, "middle", across)
	c.grid()
	return c
}

func (c *canvas) end() []byte { return []byte(c.String() + "</svg>\n") }

func (c *canvas) text(x, y, size float64, anchor, text string) {
	if text != "" {
		fmt.Fprintf(c, `<text x="%.1f" y="%.1f" font-size="%g" text-anchor="%s">%s</text>`+"\n", x, y, size, anchor, html.EscapeString(text))
	}
}

func (c *canvas) box(x, y, width, height float64, fill string) {
	fmt.Fprintf(c, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, width, height, fill)
}

func (c *canvas) line(x1, y1, x2, y2, width float64, stroke string) {
	fmt.Fprintf(c, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"/>`+"\n", x1, y1, x2, y2, stroke, width)
}

// y is the height at which a value stands.
func (c *canvas) y(v float64) float64 {
	low, high := c.low, c.high
	if c.log {
		v, low, high = math.Log10(max(v, c.low)), math.Log10(low), math.Log10(high)
	}
	part := min(1, max(0, (v-low)/(high-low)))
	return bottom - part*(bottom-c.top)
}

// grid draws horizontal lines at round values, with these.
func (c *canvas) grid() {
	for _, v := range c.ticks() {
		y := c.y(v)
		c.line(left, y, right, y, 1, "#d8d8d8")
		c.text(left-6, y+4, size, "end", fmt.Sprintf("%g", v))
	}
	if c.low < 0 {
		c.line(left, c.y(0), right, c.y(0), 1, "#444444")
	}
}

func (c *canvas) ticks() (list []float64) {
	if c.log {
		for v := math.Pow(10, math.Ceil(math.Log10(c.low)-1e-9)); v <= c.high*1.0001; v *= 10 {
			list = append(list, v)
		}
		return list
	}
	step := Step(c.high - c.low)
	for n := math.Ceil(c.low / step); n*step <= c.high*1.0001; n++ {
		list = append(list, math.Round(n*step*1e6)/1e6)
	}
	return list
}

// Step is a round distance of lines, of which four to eight are in a range.
func Step(of float64) float64 {
	rough := of / 5
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= rough*0.99 {
			return m * power
		}
	}
	return 10 * power
}

// bounds of values: from low, or 0, to a round value that is not below the highest.
func bounds(low, most float64) (float64, float64) {
	if most <= low {
		most = low + 1
	}
	step := Step(most - low)
	return low, math.Ceil(most/step-1e-6) * step
}

func colour(k int) string {
	rgb := report.Colour(k)
	return fmt.Sprintf("#%02x%02x%02x", rgb.R, rgb.G, rgb.B)
}
