// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"math"
	"slices"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
)

// ruled is what fills a queue that does not take the rest; the simulator names the queue.
var ruled = []classify.Match{{}}

// withRest is a port of pq, cbwfq or llq with a queue for calls and one for the rest.
func withRest(d discipline.Name, limit uint32) plan.Class {
	class := port(d, plan.Queue{Name: "calls", Rate: 1e6, Weight: 1e6, Match: ruled}, plan.Queue{Name: "rest", Weight: 7e6, LimitPackets: limit})
	return class
}

var withQueues = []discipline.Name{discipline.PQ, discipline.CBWFQ, discipline.LLQ}

// TestRestTakesTurns: in the queue that takes the rest flows have equal shares, and a packet of a
// flow that uses less than its share waits for hardly more than the one that is being sent, in each
// discipline. With isolation none it waits for all that came before.
func TestRestTakesTurns(t *testing.T) {
	for _, d := range withQueues {
		run := func(i discipline.Isolation) phase {
			class := withRest(d, 0)
			class.Isolation = i
			s := simulate(fairLink(portRate), class)
			s.send(traffic{id: flowClass, flow: 0, length: 200, interval: 20 * time.Millisecond}) // a call
			for flow := 1; flow <= 4; flow++ {
				s.send(traffic{id: flowClass, flow: flow, length: frames, window: 10 * flow, delay: 50 * time.Microsecond})
			}
			s.send(traffic{id: flowClass, flow: 5, length: 100, interval: 37 * time.Millisecond})
			s.settle()
			s.run(portPhase)
			return s.result(t)[1]
		}
		got, without := run(discipline.ByFlow), run(discipline.NoIsolation)
		share := (8e6 - 200*8/0.020 - 100*8/0.037) / 4
		for flow := 1; flow <= 4; flow++ {
			if rate := got.flow(flowClass, flow).sent * 8 / portPhase.Seconds(); math.Abs(rate-share) > 0.02*share {
				t.Errorf("%s: flow %d has %.3f Mbit/s, want %.3f", d, flow, rate/1e6, share/1e6)
			}
		}
		for _, flow := range []int{0, 5} {
			if p := got.flow(flowClass, flow); p.longest > 5*time.Millisecond || p.dropped > 0 {
				t.Errorf("%s: sparse flow %d waited for %v, lost %d", d, flow, p.longest, p.dropped)
			}
		}
		if p := without.flow(flowClass, 5); p.longest < 20*time.Millisecond {
			t.Errorf("%s, isolation none: waited for %v; the test shows nothing", d, p.longest)
		}
	}
}

// TestFullRestDropsOfTheLongest: where the rest is full, the flow with most waiting loses packets,
// and no other. With isolation none all do.
func TestFullRestDropsOfTheLongest(t *testing.T) {
	const every = 7 * time.Millisecond
	for _, d := range withQueues {
		sent := func(i discipline.Isolation) float64 {
			class := withRest(d, 50)
			class.Isolation = i
			s := simulate(fairLink(portRate), class)
			s.send(stream(1, 4*portRate))
			s.send(traffic{id: flowClass, flow: 2, length: 100, interval: every})
			s.settle()
			s.run(portPhase)
			return s.result(t)[1].flow(flowClass, 2).sent / 100
		}
		all := portPhase.Seconds() / every.Seconds()
		if got := sent(discipline.ByFlow); got < all-2 {
			t.Errorf("%s: %.0f packets of %.0f of the sparse flow were sent", d, got, all)
		}
		if got := sent(discipline.NoIsolation); got > 0.9*all {
			t.Errorf("%s, isolation none: %.0f packets of %.0f; the test shows nothing", d, got, all)
		}
	}
}

// TestQueuesShareBesideTurns: the queues' parts are what they are without turns, however many flows
// the rest has.
func TestQueuesShareBesideTurns(t *testing.T) {
	for _, flows := range []int{1, 3, 20} {
		queues := weighted(1, 2, 3)
		queues[0].Match, queues[1].Match = ruled, ruled
		s := simulate(fairLink(portRate), port(discipline.CBWFQ, queues...))
		s.send(stream(0, portRate))
		s.send(stream(1, portRate))
		rest := slices.Collect(func(yield func(int) bool) {
			for i := range flows {
				yield(2 + 8*i) // all in the third queue
			}
		})
		for _, flow := range rest {
			s.send(traffic{id: flowClass, flow: flow, length: frames, window: 5, delay: 50 * time.Microsecond})
		}
		s.settle()
		s.run(portPhase)
		got := s.result(t)[1]
		wantRates(t, got, portPhase, 0.01, 8./6, 16./6)
		each := 24. / 6 / float64(flows)
		for _, flow := range rest {
			if rate := got.flow(flowClass, flow).sent * 8 / portPhase.Seconds() / 1e6; math.Abs(rate-each) > 0.03*each {
				t.Errorf("%d flows in the rest: flow %d has %.3f Mbit/s, want %.3f", flows, flow, rate, each)
			}
		}
	}
}

// TestECNInTurns: ECN in the queue that takes the rest is as that of sfq.
func TestECNInTurns(t *testing.T) {
	alone := port(discipline.SFQ)
	alone.AQM = ecnAQM
	want := runTCP(t, alone, true, four(ect)...)
	for _, d := range withQueues {
		class := withRest(d, 0)
		if d != discipline.LLQ {
			class.Queues = class.Queues[1:]
		}
		class.AQM = ecnAQM
		got := runTCP(t, class, true, four(ect)...)
		if got.drops() > 0 || got.marks() == 0 || got.utilisation < 0.99 || got.p99 > want.p99*105/100 {
			t.Errorf("%s: %d drops, %d marks, utilisation %.4f, p99 %v; sfq has %v", d, got.drops(), got.marks(), got.utilisation, got.p99, want.p99)
		}
	}
}
