// SPDX-License-Identifier: Apache-2.0

package optimize

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// cpuTime is this process's, which other programs on the machine do not add to.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var sizes = []struct{ nodes, containers int }{{14, 28}, {14, 200}, {100, 1000}, {1000, 10000}}

func BenchmarkLocal(b *testing.B) {
	for _, measure := range []Measure{MeasureLoad, MeasureMean} {
		for _, size := range sizes {
			b.Run(fmt.Sprintf("%v/%dx%d", measure, size.containers, size.nodes), func(b *testing.B) {
				p := sample(size.nodes, size.containers, 1, measure)
				var plan Plan
				before := cpuTime(b)
				for b.Loop() {
					plan = Local(p, Options{Alpha: DefaultAlpha, Seed: 1})
				}
				b.ReportMetric((cpuTime(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
				b.ReportMetric(plan.After.S/plan.Before.S, "S/S0")
				b.ReportMetric(float64(plan.After.Moves), "moves")
				b.ReportMetric(float64(plan.Tried), "tried")
			})
		}
	}
}

func BenchmarkGenetic(b *testing.B) {
	for _, size := range sizes[:2] {
		b.Run(fmt.Sprintf("%dx%d", size.containers, size.nodes), func(b *testing.B) {
			p := sample(size.nodes, size.containers, 1, MeasureMean)
			var plan Plan
			for b.Loop() {
				plan = Genetic(p, GeneticOptions{Options: Options{Alpha: DefaultAlpha, Seed: 1}})
			}
			b.ReportMetric(plan.After.S/plan.Before.S, "S/S0")
			b.ReportMetric(float64(plan.After.Moves), "moves")
		})
	}
}

// sample is Synthetic with a measure.
func sample(nodes, containers int, seed uint64, measure Measure) *Problem {
	p := Synthetic(nodes, containers, seed)
	p.Measure = measure
	return p
}
