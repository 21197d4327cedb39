// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"fmt"
	"syscall"
	"testing"
	"time"

	"weir/internal/cluster/optimize"
)

var long = flag.Duration("long", 0, "let the genetic algorithm run for this much CPU time beside the local search, such as 10m")

// TestTenThousand compares the local search with the genetic algorithm, which gets
// -long of CPU time, on 10,000 containers and 1,000 nodes, by both measures. Time is
// the process's CPU time, so that other programs do not count.
//
// Alpha means something else in both: the genetic algorithm's S is normalised over a
// population that becomes ever more alike, so the last bit of S counts as much as the
// first; the local search's is a part of the S of now. So the local search is tried
// with an alpha of 0.99 as well, with which it goes on for as long as the genetic
// algorithm would, and that S is compared. Fewer moves are no gain of an algorithm that leaves
// more of S, so the local search is tried with as many moves as each of the others made, too.
func TestTenThousand(t *testing.T) {
	if *long == 0 {
		t.Skip("takes a long time; run it with -long 10m -timeout 0")
	}
	clock := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for _, measure := range []optimize.Measure{optimize.MeasureMean, optimize.MeasureLoad} {
		p := optimize.Synthetic(1000, 10_000, 1)
		p.Measure = measure
		var best Result // the local search's lowest S
		for _, part := range []struct {
			algorithm Algorithm
			alpha     float64
		}{{Local, optimize.DefaultAlpha}, {Local, 0.99}, {Genetic, optimize.DefaultAlpha}, {GeneticSeeded, optimize.DefaultAlpha}} {
			t.Run(fmt.Sprintf("%v/%s,alpha=%v", measure, part.algorithm, part.alpha), func(t *testing.T) {
				// A mutation in every fifth child is the best for it at 1,000
				// containers.
				o := Options{Options: optimize.Options{Alpha: part.alpha, Seed: 1}, For: *long, Genetic: optimize.GeneticOptions{Mutation: 0.2}}
				began, next := clock(), time.Duration(0)
				o.Stop = func(s float64) bool {
					if passed := clock() - began; passed >= next {
						t.Logf("after %v: S %.4g", passed.Round(time.Second), s)
						next += time.Minute
					}
					return false
				}
				r, err := Run(p, part.algorithm, o, clock)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("S %.4g -> %.4g (%.1f %% less), %d moves, %.1f s of CPU time, %d tried",
					r.SBefore, r.SAfter, r.Reduction*100, r.Moves, r.RunTime, r.Tried)
				if part.algorithm == Local {
					best = r
					return
				}
				if r.SAfter < best.SAfter {
					t.Errorf("S %v with %d moves; the local search's: %v with %d", r.SAfter, r.Moves, best.SAfter, best.Moves)
				}
				o.For, o.Stop, o.MaxMoves = 0, nil, r.Moves
				l, err := Run(p, Local, o, clock)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("with as many moves the local search: S %.4g, %d moves", l.SAfter, l.Moves)
				if l.SAfter > r.SAfter || l.Moves > r.Moves {
					t.Errorf("S %v with %d moves; the local search's with as many: %v with %d", r.SAfter, r.Moves, l.SAfter, l.Moves)
				}
			})
		}
	}
}
