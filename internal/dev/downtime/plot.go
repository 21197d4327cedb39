// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"image/color"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"weir/internal/lab/cluster"
)

var colours = []color.RGBA{{0x1f, 0x77, 0xb4, 255}, {0xff, 0x7f, 0x0e, 255}, {0x2c, 0xa0, 0x2c, 255}, {0xd6, 0x27, 0x28, 255}, {0x94, 0x67, 0xbd, 255}, {0x8c, 0x56, 0x4b, 255}, {0x7f, 0x7f, 0x7f, 255}, {0x17, 0xbe, 0xcf, 255}}

// plotSteps draws stacked bars, as the paper's figure 7.
func plotSteps(events []cluster.Event) *plot.Plot {
	p := plot.New()
	p.Y.Label.Text = "seconds"
	p.Legend.Top, p.Legend.Left = true, true
	var names []string
	values := make([]plotter.Values, len(columns))
	for _, e := range events {
		image, how, _ := strings.Cut(e.Label, " ")
		if how == "absent" {
			continue
		}
		names = append(names, image+"\n"+how)
		for i, cell := range down(e) {
			v, _ := strconv.ParseFloat(cell, 64) // "" is 0
			values[i] = append(values[i], v)
		}
	}
	if len(names) == 0 {
		return nil
	}
	var below *plotter.BarChart
	for i, v := range values {
		bar, err := plotter.NewBarChart(v, vg.Points(24))
		if err != nil {
			return nil // no values
		}
		bar.Color, bar.LineStyle.Width = colours[i], 0
		if below != nil {
			bar.StackOn(below)
		}
		below = bar
		p.Add(bar)
		p.Legend.Add(columns[i].title, bar)
	}
	p.NominalX(names...)
	return p
}

// plotApproaches draws groups of bars, as the paper's figure 8.
func plotApproaches(events []cluster.Event) *plot.Plot {
	list := images(events)
	if len(list) == 0 {
		return nil
	}
	p := plot.New()
	p.Y.Label.Text = "seconds"
	p.Legend.Top, p.Legend.Left = true, true
	width := vg.Points(18)
	for i, how := range hows {
		values := make(plotter.Values, len(list))
		for k, image := range list {
			for _, e := range events {
				if e.Label == image+" "+how {
					d, _ := files(e)
					values[k] = d.Seconds()
				}
			}
		}
		bar, err := plotter.NewBarChart(values, width)
		if err != nil {
			return nil // no values
		}
		bar.Color, bar.LineStyle.Width = colours[i], 0
		bar.Offset = width * vg.Length(float64(i)-1.5)
		p.Add(bar)
		p.Legend.Add(how, bar)
	}
	p.NominalX(list...)
	return p
}

// plotCheckpoints draws the time to freeze against workers, as the paper's figure 9.
func plotCheckpoints(events []cluster.Event) *plot.Plot {
	if len(events) == 0 {
		return nil
	}
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text, p.Y.Min = "workers", "seconds to freeze", 0
	p.Legend.Top, p.Legend.Left = true, true
	for i, program := range slices.DeleteFunc(images(events), func(p string) bool { return p == ofMemory }) {
		var points plotter.XYs
		for _, e := range events {
			name, workers, _ := strings.Cut(e.Label, " ")
			if n, err := strconv.Atoi(workers); err == nil && name == program {
				d, _ := took(e, "freeze")
				points = append(points, plotter.XY{X: float64(n), Y: d.Seconds()})
			}
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil // no values
		}
		line.Color, marks.Color = colours[i], colours[i]
		p.Add(line, marks)
		p.Legend.Add(program, line, marks)
	}
	return p
}
