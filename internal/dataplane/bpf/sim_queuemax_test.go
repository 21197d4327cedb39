// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/plan"
	"weir/internal/policy"
	"weir/internal/policy/discipline"
)

// A queue with a max gets as much and no more, whatever its sender, discipline and place;
// another queue of the workload gets the rest of the link, and what waits behind the max waits
// for 100 ms, or for 8 frames at it.
func TestQueueMax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := policy.Rate(rapid.IntRange(100e3, int(portRate)*3/4).Draw(t, "max"))
		d := rapid.SampledFrom([]discipline.Name{discipline.PQ, discipline.CBWFQ, discipline.LLQ}).Draw(t, "discipline")
		limited := rapid.IntRange(0, 1).Draw(t, "queue")
		queues := weighted(4, 1)
		queues[limited].Interval = plan.IntervalOf(most)
		if d == discipline.LLQ {
			queues[0].Rate = portRate
		}
		if d == discipline.CBWFQ && limited == 1 { // with the max as weight at least, the rest is what the other leaves
			queues[0].Weight, queues[1].Weight = 1, 1000
		}
		if d != discipline.CBWFQ && limited == 1 {
			limited, queues[0].Interval, queues[1].Interval = 0, queues[1].Interval, 0 // behind a greedy strict queue it would get nothing
		}
		s := simulate(fairLink(portRate), port(d, queues...))
		length := rapid.IntRange(100, 1514).Draw(t, "length")
		sender := traffic{id: flowClass, flow: limited, length: length, interval: time.Duration(float64(length) * 8e9 / float64(most) / rapid.Float64Range(1.01, 4).Draw(t, "times as much"))}
		if rapid.Bool().Draw(t, "waits for answers") {
			sender = traffic{id: flowClass, flow: limited, length: length, window: 4 + int(most/8/20)/length, delay: 10 * time.Millisecond}
		}
		s.send(sender)
		s.send(stream(1-limited, 2*portRate))
		s.settle()
		s.run(portPhase)
		got := s.result(t)[1]
		sent, rest := got.flow(flowClass, limited).sent, got.flow(flowClass, 1-limited).sent
		if want := float64(most) / 8 * portPhase.Seconds(); math.Abs(sent-want) > 0.001*want+2*float64(length) {
			t.Fatalf("%.0f bytes with a max of %d bit/s, want %.0f\n%s", sent, most, want, s)
		}
		if want := float64(portRate) / 8 * portPhase.Seconds(); sent+rest < 0.999*want {
			t.Fatalf("the link carries %.0f bytes of %.0f\n%s", sent+rest, want, s)
		}
		longest := max(100*time.Millisecond, time.Duration(8*1514*8e9/float64(most))) + 5*time.Millisecond
		if waited := got.flow(flowClass, limited).longest; waited > longest {
			t.Fatalf("a packet waited for %v, more than %v\n%s", waited, longest, s)
		}
	})
}
