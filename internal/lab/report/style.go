// SPDX-License-Identifier: Apache-2.0

package report

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// NewPlot is an empty plot as all of Weir's look: the legend on top at the right,
// horizontal lines to read values by.
func NewPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(8)
	p.Legend.Top, p.Legend.XOffs = true, vg.Points(-6)
	p.Legend.Padding = vg.Points(2)
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle,
		&p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Size = font.Points(14)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Width = pale, 0
	p.Add(grid)
	return p
}

// Faint is for what only helps to read a plot.
var Faint = color.RGBA{0xb0, 0xb0, 0xb0, 0xff}

// Colour returns the colour of the i-th line.
func Colour(i int) color.RGBA { return palette[i%len(palette)] }
