// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"bytes"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgsvg" // SVG

	"weir/internal/lab/report"
)

const (
	plotWidth  = 20 * vg.Centimeter
	plotHeight = 10 * vg.Centimeter
)

// curve is S and moves by alpha, as parts.
type curve struct{ s, moves plotter.XYs }

func (c *curve) add(alpha, s, moves float64) {
	c.s = append(c.s, plotter.XY{X: alpha, Y: s})
	c.moves = append(c.moves, plotter.XY{X: alpha, Y: moves})
}

func (c *curve) plot(title string) ([]byte, error) {
	p := report.NewPlot(title, "alpha", "part of what it was before")
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1.4
	for i, part := range []struct {
		name string
		list plotter.XYs
	}{{"S", c.s}, {"moves, of all containers", c.moves}} {
		line, points, err := plotter.NewLinePoints(part.list)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = report.Colour(i), vg.Points(1.6)
		points.Color, points.Radius = report.Colour(i), vg.Points(2)
		p.Add(line, points)
		p.Legend.Add(part.name, line)
	}
	chosen, err := plotter.NewLine(plotter.XYs{{X: 0.85, Y: 0}, {X: 0.85, Y: 1}})
	if err != nil {
		return nil, err
	}
	chosen.Color, chosen.Dashes = color.Gray{0x88}, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(chosen)
	p.Legend.Add("the paper's alpha, 0.85", chosen)
	return svg(p)
}

// barChart draws a group of bars for each name, with one bar of each kind; noises, if given,
// has how far each value may be off, either way, in the order of values.
func barChart(title, label string, low, high float64, names, kinds []string, values [][]float64, noises ...[]float64) ([]byte, error) {
	p := report.NewPlot(title, "", label)
	p.Y.Min, p.Y.Max = low, high
	width := vg.Points(12)
	for k, kind := range kinds {
		heights := make(plotter.Values, len(names))
		for i := range names {
			heights[i] = values[i][k]
		}
		bars, err := plotter.NewBarChart(heights, width)
		if err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width = report.Colour(k), 0
		bars.Offset = width * vg.Length(k-(len(kinds)-1)/2)
		p.Add(bars)
		p.Legend.Add(kind, bars)
		if len(noises) > 0 {
			p.Add(errorBars{bars, noises, k})
		}
	}
	p.NominalX(names...)
	return svg(p)
}

// svg is a plot's SVG.
func svg(p *plot.Plot) ([]byte, error) {
	canvas, err := p.WriterTo(plotWidth, plotHeight, "svg")
	if err != nil {
		return nil, fmt.Errorf("plot %s: %w", p.Title.Text, err)
	}
	var b bytes.Buffer
	_, err = canvas.WriteTo(&b)
	return b.Bytes(), err
}

// errorBars are the noises of the k-th kind of bars.
type errorBars struct {
	of     *plotter.BarChart
	noises [][]float64
	kind   int
}

// Plot draws a line from the lowest to the highest that each value may be.
func (e errorBars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, v := range e.of.Values {
		noise, at := e.noises[i][e.kind], x(float64(i))+e.of.Offset
		if noise > 0 {
			c.StrokeLine2(draw.LineStyle{Color: color.Black, Width: vg.Points(0.8)}, at, y(v-noise), at, y(v+noise))
		}
	}
}
