// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"github.com/goccy/go-yaml/ast"
	"slices"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// Timing asks how exactly packets of one class leave by a schedule, instead of
// running the phases.
type Timing struct {
	Rate       policy.Rate // of frames, on the wire
	Size       int         // of a frame, bytes
	Packets    int
	Schedulers []string // of TimingSchedulers
}

// TimingSchedulers are Weir's own and what the kernel has: fq's pacing, and a token
// bucket.
var TimingSchedulers = append(slices.Clone(plan.Schedulers), "fq", "tbf")

func (r *reader) timing(n ast.Node, s *Scenario) {
	t := Timing{Rate: 10e6, Size: policy.FullFrame, Packets: 2000, Schedulers: []string{plan.SchedulerFair, "fq", "tbf"}}
	s.Timing = &t
	if _, ok := n.(*ast.NullNode); ok {
		return
	}
	r.fields(n, "timing", "a mapping such as {rate: 10mbit}", map[string]field{
		"rate":    r.positiveRate(&t.Rate, 0),
		"size":    r.count(&t.Size, 64, DefaultMTU+14, "a frame's size in bytes"),
		"packets": r.count(&t.Packets, 100, 3500, "a number of packets"),
		"schedulers": func(n ast.Node, path string) {
			t.Schedulers = r.words(n, path, "scheduler", TimingSchedulers)
		},
	})
}
