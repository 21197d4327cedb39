// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // PNG
	_ "gonum.org/v1/plot/vg/vgsvg" // SVG

	"weir/internal/core/policy"
)

// palette tells eight workloads apart, also for those who do not see red and
// green (Okabe and Ito); from the ninth on colours repeat.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x99, 0x4f, 0x00, 0xff}, {0x44, 0x44, 0x44, 0xff},
}

var pale = color.RGBA{0xd8, 0xd8, 0xd8, 0xff}

const (
	plotWidth  = 24 * vg.Centimeter
	plotHeight = 12 * vg.Centimeter
)

// Plot draws the rates over time with the ideals dashed, as NAME.svg and
// NAME.png in dir, and returns the files' paths without the suffix.
func Plot(dir string, r *Result) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("plot: %w", err)
	}
	p, err := draft(r)
	if err != nil {
		return "", fmt.Errorf("plot %s: %w", r.Scenario.Name, err)
	}
	base := filepath.Join(dir, FileName(r.Scenario.File)+"-"+r.Scheduler)
	for _, suffix := range []string{".svg", ".png"} {
		if err := p.Save(plotWidth, plotHeight, base+suffix); err != nil {
			return "", fmt.Errorf("plot: %w", err)
		}
	}
	return base, nil
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// FileName is a scenario's file name without folder and suffix, fit for a new
// file's name.
func FileName(file string) string {
	base := filepath.Base(file)
	return notInNames.ReplaceAllString(strings.TrimSuffix(base, filepath.Ext(base)), "-")
}

func draft(r *Result) (*plot.Plot, error) {
	what := "received, Mbit/s"
	if r.Scenario.Reserves() {
		what = "goodput, Mbit/s"
	}
	p := NewPlot(fmt.Sprintf("%s (%s)", r.Scenario.Name, r.scheduled()), "time in seconds", what)
	end := r.Scenario.Duration().Seconds()
	p.X.Min, p.X.Max, p.Y.Min = 0, end*1.14, 0 // the legend has its place beside the lines
	p.X.Tick.Marker = plot.TickerFunc(func(low, _ float64) []plot.Tick { return plot.DefaultTicks{}.Ticks(low, end) })
	p.Y.Max = top(r) / 1e6
	for _, span := range r.Scenario.Spans()[1:] {
		if err := vertical(p, span.From, p.Y.Max); err != nil {
			return nil, err
		}
	}
	if err := captions(p, r); err != nil {
		return nil, err
	}
	for w, workload := range r.Scenario.Workloads {
		colour := Colour(w)
		if err := ideal(p, r, w, colour); err != nil {
			return nil, err
		}
		line, err := plotter.NewLine(series(r, w))
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = colour, vg.Points(1.6)
		p.Add(line)
		p.Legend.Add(workload.Name, line)
	}
	dashed := &plotter.Line{LineStyle: dashes(color.RGBA{0x44, 0x44, 0x44, 0xff})}
	p.Legend.Add("ideal", dashed)
	return p, nil
}

// captions says at the top of each phase what it is, if that is known.
func captions(p *plot.Plot, r *Result) error {
	list := plotter.XYLabels{Labels: r.Captions}
	for i := range r.Captions {
		list.XYs = append(list.XYs, plotter.XY{X: r.Scenario.Spans()[i].From.Seconds(), Y: p.Y.Max})
	}
	labels, err := plotter.NewLabels(list)
	if err != nil {
		return err
	}
	labels.Offset = vg.Point{X: vg.Points(5), Y: vg.Points(-11)}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font.Variant, labels.TextStyle[i].Font.Size = "Sans", font.Points(10)
	}
	p.Add(labels)
	return nil
}

// top of the vertical axis: what is drawn, and half of the link at least where rates are, with room
// above it.
func top(r *Result) float64 {
	most, rows := float64(r.Scenario.Link.Capacity())/2, r.Rates
	if r.Scenario.Reserves() {
		most, rows = 0, r.Goodput
		for _, st := range r.Stretch {
			for _, wire := range st.Ideal {
				most = max(most, drawn(r, wire))
			}
		}
	}
	for _, row := range rows {
		for _, v := range row {
			most = max(most, v)
		}
	}
	return most * 1.15
}

// series returns the line of a workload in the plot: its rate on the wire, or, where
// goodput is reserved, the goodput of its programs.
func series(r *Result, w int) plotter.XYs {
	if r.Scenario.Reserves() {
		return measured(r.Goodput[w], time.Second)
	}
	return measured(r.Rates[w], Step)
}

// drawn is an ideal rate, which is on the wire, as the plot has it: beside goodput as that of full
// segments.
func drawn(r *Result, wire float64) float64 {
	if r.Scenario.Reserves() {
		return wire * policy.FullPayload / policy.FullFrame
	}
	return wire
}

func measured(row []float64, step time.Duration) plotter.XYs {
	points := make(plotter.XYs, len(row))
	for i, v := range row {
		points[i].X = (time.Duration(i)*step + step/2).Seconds()
		points[i].Y = v / 1e6
	}
	return points
}

// ideal draws one dashed stretch after the other, joined where they meet.
func ideal(p *plot.Plot, r *Result, w int, colour color.RGBA) error {
	var points plotter.XYs
	for _, st := range r.Stretch {
		y := drawn(r, st.Ideal[w]) / 1e6
		points = append(points, plotter.XY{X: st.From.Seconds(), Y: y}, plotter.XY{X: st.To.Seconds(), Y: y})
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.LineStyle = dashes(colour)
	p.Add(line)
	return nil
}

func dashes(colour color.RGBA) draw.LineStyle {
	colour.A = 0xb0
	colour.R, colour.G, colour.B = mix(colour.R), mix(colour.G), mix(colour.B)
	return draw.LineStyle{Color: colour, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(5), vg.Points(3)}}
}

// mix premultiplies a channel with the transparency of the dashes.
func mix(v uint8) uint8 { return uint8(int(v) * 0xb0 / 0xff) }

func vertical(p *plot.Plot, at time.Duration, height float64) error {
	line, err := plotter.NewLine(plotter.XYs{{X: at.Seconds(), Y: 0}, {X: at.Seconds(), Y: height}})
	if err != nil {
		return err
	}
	line.Color, line.Width = Faint, vg.Points(0.8)
	p.Add(line)
	return nil
}
