// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
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

func (c *curve) plot(file, title string) error {
	p := report.NewPlot(title, "alpha", "part of what it was before")
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1.4
	for i, part := range []struct {
		name string
		list plotter.XYs
	}{{"S", c.s}, {"moves, of all containers", c.moves}} {
		line, points, err := plotter.NewLinePoints(part.list)
		if err != nil {
			return err
		}
		line.Color, line.Width = report.Colour(i), vg.Points(1.6)
		points.Color, points.Radius = report.Colour(i), vg.Points(2)
		p.Add(line, points)
		p.Legend.Add(part.name, line)
	}
	chosen, err := plotter.NewLine(plotter.XYs{{X: 0.85, Y: 0}, {X: 0.85, Y: 1}})
	if err != nil {
		return err
	}
	chosen.Color, chosen.Dashes = color.Gray{0x88}, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(chosen)
	p.Legend.Add("the paper's alpha, 0.85", chosen)
	return save(p, file)
}

// barChart draws a group of bars for each name, with one bar of each kind.
func barChart(file, title, label string, low, high float64, names, kinds []string, values [][]float64) error {
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
			return err
		}
		bars.Color, bars.LineStyle.Width = report.Colour(k), 0
		bars.Offset = width * vg.Length(k-(len(kinds)-1)/2)
		p.Add(bars)
		p.Legend.Add(kind, bars)
	}
	p.NominalX(names...)
	return save(p, file)
}

func save(p *plot.Plot, file string) error {
	if err := p.Save(plotWidth, plotHeight, file); err != nil {
		return fmt.Errorf("plot %s: %w", file, err)
	}
	return nil
}
