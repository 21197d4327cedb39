// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
)

// evenCall is the most jitter that a call may have, the SDN paper's of LLQ (table 4).
const evenCall = 20 * time.Microsecond

// jitter is that of flow f of class id as its receiver reports it (RFC 3550, section 6.4.1, as
// iperf3 does), on average over a traced phase.
func (p phase) jitter(id plan.ClassID, f int) time.Duration {
	var last, now, sum float64
	n := 0
	for _, d := range p.left[id] {
		if d.flow != f {
			continue
		}
		took := float64(d.at - d.born)
		if n++; n > 1 {
			now += (max(took-last, last-took) - now) / 16
			sum += now
		}
		last = took
	}
	return time.Duration(sum / float64(max(n-1, 1)))
}

// beside are this many workloads of weight 1 beside the port.
func beside(class plan.Class, n int) []plan.Class {
	classes := []plan.Class{class}
	for i := range n {
		classes = append(classes, plan.Class{ID: flowClass + 1 + plan.ClassID(i), Weight: 1})
	}
	return classes
}

// wantEven runs s, whose other workloads send all they can, and holds the jitter of the port's flow
// 0.
func (s *simulation) wantEven(t *testing.T) {
	t.Helper()
	for _, c := range s.classes[1:] {
		s.busy(c.ID, 2)
	}
	s.settle()
	s.trace(1)
	s.run(5 * time.Second)
	p := s.result(t)[1]
	call := p.flow(flowClass, 0)
	if j := p.jitter(flowClass, 0); j > evenCall || call.dropped > 0 || call.sent == 0 {
		t.Errorf("jitter %v, want at most %v; waited %v at most, %d lost of %.0f bytes", j, evenCall, call.longest, call.dropped, call.sent)
	}
}

// TestPaperCallsAreEven repeats case 4 of the SDN paper's figure 2(d): the strict queue's flow
// wants 64 % of a slow link, in packets of a whole frame, beside others that fill it.
func TestPaperCallsAreEven(t *testing.T) {
	s := simulate(fairLink(portRate), port(discipline.LLQ, append([]plan.Queue{{Name: "strict", Rate: 7.5e6}}, weighted(1, 2, 3)...)...))
	for i := range 4 {
		s.send(stream(i, 5.143e6))
	}
	s.wantEven(t)
}

// TestCallsOfRulesAreEven: a call in a queue of its own, whatever the discipline, waits as little
// as without rules, beside four uploads of its own workload, and beside other workloads.
func TestCallsOfRulesAreEven(t *testing.T) {
	for _, capacity := range []policy.Rate{8e6, 20e6, 100e6} {
		for _, others := range []int{0, 1, 4} {
			for _, d := range append([]discipline.Name{discipline.SFQ}, withQueues...) {
				t.Run(fmt.Sprintf("%s, %v beside %d", d, capacity, others), func(t *testing.T) {
					class := withRest(d, 0)
					if d == discipline.SFQ {
						class.Queues = nil
					}
					s := simulate(fairLink(capacity), beside(class, others)...)
					s.send(traffic{id: flowClass, flow: 0, length: 242, interval: 23700 * time.Microsecond})
					for flow := 1; flow <= 4; flow++ {
						s.send(traffic{id: flowClass, flow: flow, length: frames, window: 10, delay: 200 * time.Microsecond})
					}
					s.wantEven(t)
				})
			}
		}
	}
}
