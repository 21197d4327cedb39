// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/internal/dev/charts"
	"weir/internal/lab/cluster"
)

// plotSteps draws stacked bars, as the paper's figure 7: nil without data.
func plotSteps(events []cluster.Event) []byte {
	b := charts.Bars{Title: "C-Balancer, figure 7: the steps of a migration", Unit: "seconds while the container stands still",
		Across: "image and approach", Stacked: true}
	for _, c := range columns {
		b.Kinds = append(b.Kinds, c.title)
	}
	for _, e := range events {
		image, how, _ := strings.Cut(e.Label, " ")
		if how == "absent" {
			continue
		}
		b.Groups = append(b.Groups, image+"\n"+how)
		var values []float64
		for _, cell := range down(e) {
			v, _ := strconv.ParseFloat(cell, 64) // "" is 0
			values = append(values, v)
		}
		b.Values = append(b.Values, values[:len(columns)])
	}
	if len(b.Groups) == 0 {
		return nil
	}
	return b.SVG()
}

// plotApproaches draws groups of bars, as the paper's figure 8. Times are from 0.1 to 50 s, so the
// scale is logarithmic.
func plotApproaches(events []cluster.Event) []byte {
	b := charts.Bars{Title: "C-Balancer, figure 8: time to bring the file system over", Unit: "seconds, each line ten times the one below",
		Across: "image", Groups: images(events), Low: 0.01, Log: true,
		Kinds: []string{"1: export", "2: layers absent", "2: layers present", "the changed layer alone"}}
	if len(b.Groups) == 0 {
		return nil
	}
	for _, image := range b.Groups {
		values := make([]float64, len(hows))
		for i, how := range hows {
			values[i] = math.NaN()
			for _, e := range events {
				if e.Label == image+" "+how {
					d, _ := files(e)
					values[i] = d.Seconds()
				}
			}
		}
		b.Values = append(b.Values, values)
	}
	return b.SVG()
}

// plotCheckpoints draws the time to freeze against workers, as the paper's figure 9(a).
func plotCheckpoints(events []cluster.Event) []byte {
	l := charts.LineChart{Title: "C-Balancer, figure 9(a): time of the checkpoint", Unit: "seconds to freeze", Across: "workers", At: []float64{1, 2, 4, 8}}
	for _, program := range slices.DeleteFunc(images(events), func(p string) bool { return p == ofMemory }) {
		var points []charts.CurvePoint
		for _, e := range byWorkers(events, program) {
			d, _ := took(e.Event, "freeze")
			points = append(points, charts.CurvePoint{X: float64(e.workers), Y: d.Seconds()})
		}
		if len(points) > 0 {
			l.Kinds, l.Curves = append(l.Kinds, program), append(l.Curves, points)
		}
	}
	if len(l.Curves) == 0 {
		return nil
	}
	return l.SVG()
}

// plotSizes draws what a checkpoint of qsort takes, as it is and packed, as the paper's figure
// 9(b).
func plotSizes(events []cluster.Event) []byte {
	l := charts.LineChart{Title: "C-Balancer, figure 9(b): size of qsort's checkpoint", Unit: "MB", Across: "workers", At: []float64{1, 2, 4, 8},
		Kinds: []string{"as it is", "packed"}, Curves: make([][]charts.CurvePoint, 2)}
	for _, e := range byWorkers(events, "qsort") {
		_, packed := took(e.Event, "send checkpoint")
		l.Curves[0] = append(l.Curves[0], charts.CurvePoint{X: float64(e.workers), Y: float64(raw(e.Event)) / 1e6})
		l.Curves[1] = append(l.Curves[1], charts.CurvePoint{X: float64(e.workers), Y: float64(packed) / 1e6})
	}
	if len(l.Curves[0]) == 0 {
		return nil
	}
	return l.SVG()
}

// counted is a migration of a program with a number of workers.
type counted struct {
	cluster.Event
	workers int
}

// byWorkers are the migrations of a program, in their order.
func byWorkers(events []cluster.Event, program string) (list []counted) {
	for _, e := range events {
		name, workers, _ := strings.Cut(e.Label, " ")
		if n, err := strconv.Atoi(workers); err == nil && name == program {
			list = append(list, counted{e, n})
		}
	}
	return list
}
