// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
)

// The port of the SDN paper: one workload has the whole link of 8 Mbit/s.
const (
	portRate  = policy.Rate(8e6)
	ipFrame   = 1512 // of 1,470 bytes of payload
	flowClass = plan.ClassID(1)
)

// port is a class with the whole link.
func port(d discipline.Name, queues ...plan.Queue) plan.Class {
	return plan.Class{ID: flowClass, Name: "port", Weight: 1, Discipline: d, Queues: queues}
}

// stream is a flow of this rate, which does not slow down when packets are lost.
func stream(flow int, rate policy.Rate) traffic {
	return traffic{id: flowClass, flow: flow, length: ipFrame, interval: time.Duration(ipFrame * 8e9 / float64(rate))}
}

// weighted are queues with these weights, in Mbit/s.
func weighted(mbit ...policy.Rate) (queues []plan.Queue) {
	for i, rate := range mbit {
		queues = append(queues, plan.Queue{Name: fmt.Sprint("q", i), Weight: rate * 1e6})
	}
	return queues
}

// wantRates holds what the flows sent against rates in Mbit/s.
func wantRates(t *testing.T, p phase, over time.Duration, within float64, want ...float64) {
	t.Helper()
	for i, rate := range want {
		got := p.flow(flowClass, i).sent * 8 / over.Seconds() / 1e6
		if math.Abs(got-rate) > within*rate {
			t.Errorf("flow %d: %.3f Mbit/s, want %.3f", i+1, got, rate)
		}
	}
}

const portPhase = 20 * time.Second

// TestSFQ shares equally, whatever the flows' packets and however many join.
func TestSFQ(t *testing.T) {
	s := simulate(fairLink(portRate), port(discipline.SFQ))
	for i := range 4 {
		s.send(stream(i, 8e6))
		s.settle()
		s.run(portPhase)
	}
	phases := s.result(t)
	for i := range 4 {
		share := 8 / float64(i+1)
		wantRates(t, phases[2*i+1], portPhase, 0.01, []float64{share, share, share, share}[:i+1]...)
	}
}

func TestSFQOfUnequalLengths(t *testing.T) {
	s := simulate(fairLink(100e6), port(discipline.SFQ))
	for i, length := range []int{64, 1514, 9000, 64000} {
		s.send(traffic{id: flowClass, flow: i, length: length, window: 2 + 200000/length, delay: 50 * time.Microsecond})
	}
	s.settle()
	s.run(portPhase)
	wantRates(t, s.result(t)[1], portPhase, 0.02, 25, 25, 25, 25)
}

// TestSparseFlow waits for hardly more than the packet that is being sent.
func TestSparseFlow(t *testing.T) {
	s := simulate(fairLink(portRate), port(discipline.SFQ))
	for i := range 8 {
		s.send(traffic{id: flowClass, flow: i, length: frames, window: 20, delay: 50 * time.Microsecond})
	}
	s.send(traffic{id: flowClass, flow: 100, length: 100, interval: 37 * time.Millisecond})
	s.settle()
	s.run(portPhase)
	if got := s.result(t)[1].flow(flowClass, 100); got.longest > 4*time.Millisecond || got.sent < 53000 {
		t.Errorf("sparse flow waited for %v, sent %.0f bytes", got.longest, got.sent)
	}
}

// TestRequestsBesideBulk: a flow that asks again as soon as it has an answer waits
// for a packet, not for a round of the others, as long as it uses less than its
// share; and it cannot use more.
func TestRequestsBesideBulk(t *testing.T) {
	s := simulate(fairLink(100e6), port(discipline.SFQ))
	const bulk = 127
	for i := range bulk {
		s.send(traffic{id: flowClass, flow: i, length: 3028, window: 2, delay: 50 * time.Microsecond})
	}
	s.send(traffic{id: flowClass, flow: 200, length: 66, window: 1, delay: 500 * time.Microsecond})
	s.settle()
	s.run(portPhase)
	s.stopFlow(flowClass, 200)
	s.send(traffic{id: flowClass, flow: 200, length: 1514, window: 1, delay: 10 * time.Microsecond})
	s.settle()
	s.run(portPhase)
	phases := s.result(t)
	if got := phases[1].flow(flowClass, 200); got.longest > 2*time.Millisecond || got.sent < 66*20000 {
		t.Errorf("requests waited for %v, sent %.0f bytes", got.longest, got.sent)
	}
	share := 100e6 / 8 * portPhase.Seconds() / (bulk + 1)
	if got := phases[3].flow(flowClass, 200); got.sent > 1.02*share {
		t.Errorf("a flow with one packet at a time sent %.0f bytes, its share is %.0f", got.sent, share)
	}
}

// TestManyFlows: two hundred flows have a queue each, whatever their hashes.
func TestManyFlows(t *testing.T) {
	s := simulate(fairLink(100e6), port(discipline.SFQ))
	for i := range 200 {
		s.send(traffic{id: flowClass, flow: i, length: frames, window: 4, delay: 50 * time.Microsecond})
	}
	s.settle()
	s.run(portPhase)
	got := s.result(t)[1]
	for i := range 200 {
		if rate := got.flow(flowClass, i).sent * 8 / portPhase.Seconds() / 1e6; math.Abs(rate-0.5) > 0.01 {
			t.Errorf("flow %d: %.3f Mbit/s, want 0.5", i, rate)
		}
	}
}

// TestPQ repeats figure 2(b): the first queue has all it wants, the last starves.
func TestPQ(t *testing.T) {
	s := simulate(fairLink(portRate), port(discipline.PQ, make([]plan.Queue, 4)...))
	for i := range 4 {
		s.send(stream(i, 5e6))
	}
	s.settle()
	s.run(portPhase)
	s.stopFlow(flowClass, 0)
	s.settle()
	s.run(portPhase)
	phases := s.result(t)
	wantRates(t, phases[1], portPhase, 0.01, 5, 3, 0, 0)
	wantRates(t, phases[3], portPhase, 0.01, 0, 5, 3, 0)
	if first := phases[1].flow(flowClass, 0); first.dropped > 0 || first.longest > 5*time.Millisecond {
		t.Errorf("first queue lost %d, waited %v", first.dropped, first.longest)
	}
}

// TestPQOfEqualPriorities: priorities 1, 2, 2, 3 as in the paper's table 2.
func TestPQOfEqualPriorities(t *testing.T) {
	s := simulate(fairLink(portRate), port(discipline.PQ, []plan.Queue{{Priority: 1}, {Priority: 2}, {Priority: 2}, {Priority: 3}}...))
	for i := range 4 {
		s.send(stream(3-i, 5e6))
		s.settle()
		s.run(portPhase)
	}
	phases := s.result(t)
	wantRates(t, phases[3], portPhase, 0.01, 0, 0, 5, 3)
	wantRates(t, phases[5], portPhase, 0.01, 0, 4, 4, 0)
	wantRates(t, phases[7], portPhase, 0.01, 5, 1.5, 1.5, 0)
}

// TestCBWFQ repeats figure 2(c) as it should be.
func TestCBWFQ(t *testing.T) {
	s := simulate(fairLink(portRate), port(discipline.CBWFQ, weighted(1, 2, 3, 4)...))
	for i := range 4 {
		s.send(stream(3-i, 8e6))
		s.settle()
		s.run(portPhase)
	}
	phases := s.result(t)
	wantRates(t, phases[1], portPhase, 0.01, 0, 0, 0, 8)
	wantRates(t, phases[3], portPhase, 0.01, 0, 0, 8*3./7, 8*4./7)
	wantRates(t, phases[5], portPhase, 0.01, 0, 8*2./9, 8*3./9, 8*4./9)
	wantRates(t, phases[7], portPhase, 0.01, 0.8, 1.6, 2.4, 3.2)
}

// TestLLQ: within its rate the strict queue loses nothing and hardly waits; what
// is above is dropped, and the others have their weights.
func TestLLQ(t *testing.T) {
	queues := append([]plan.Queue{{Name: "voice", Rate: 5.2e6, Weight: 5.2e6}}, weighted(1, 2, 3)...)
	s := simulate(fairLink(portRate), port(discipline.LLQ, queues...))
	for i := range 4 {
		s.send(stream(i, 5e6))
	}
	s.settle()
	s.run(portPhase)
	s.send(stream(0, 7e6)) // above its rate
	s.settle()
	s.run(portPhase)
	for i := range 3 {
		s.stopFlow(flowClass, i+1)
	}
	s.settle()
	s.run(portPhase) // no other queue wants it
	phases := s.result(t)
	wantRates(t, phases[1], portPhase, 0.01, 5, 0.5, 1, 1.5)
	if voice := phases[1].flow(flowClass, 0); voice.dropped > 0 || voice.longest > 500*time.Microsecond {
		t.Errorf("strict queue lost %d, waited %v", voice.dropped, voice.longest)
	}
	wantRates(t, phases[3], portPhase, 0.01, 5.2, 2.8/6, 2*2.8/6, 3*2.8/6)
	wantRates(t, phases[5], portPhase, 0.01, 7)
}

// TestLLQBesideOthers: the strict queue's packets do not wait for the line, neither
// for a batch of others' nor for one of their own class's.
func TestLLQBesideOthers(t *testing.T) {
	const voice = 2e6
	queues := []plan.Queue{{Name: "voice", Rate: voice}, {Name: "rest", Weight: 1e6}}
	for name, members := range map[string]plan.ClassID{"alone": 1, "of five": 5} {
		classes := []plan.Class{port(discipline.LLQ, queues...)}
		for id := plan.ClassID(2); id <= members; id++ {
			classes = append(classes, plan.Class{ID: id, Name: "c", Weight: 1, Limit: plan.Limit{Bytes: 1 << 20}})
		}
		s := simulate(fairLink(100e6), classes...)
		s.send(traffic{id: flowClass, flow: 0, length: 200, interval: 1013 * time.Microsecond})
		s.send(traffic{id: flowClass, flow: 1, length: frames, window: 20, delay: 50 * time.Microsecond})
		for id := plan.ClassID(2); id <= members; id++ {
			s.send(traffic{id: id, length: frames, window: 20, delay: 50 * time.Microsecond})
		}
		s.settle()
		s.run(portPhase)
		got := s.result(t)[1].flow(flowClass, 0)
		t.Logf("%s: waited %v at most", name, got.longest)
		if got.longest > 50*time.Microsecond || got.dropped > 0 {
			t.Errorf("%s: strict queue waited %v, lost %v", name, got.longest, got.dropped)
		}
	}
}

// TestCoDel keeps the delay near the target where senders that do not slow down
// ask for a little more than there is, and lets bursts pass.
func TestCoDel(t *testing.T) {
	class := port(discipline.SFQ)
	class.AQM = plan.AQM{Target: 5 * time.Millisecond, Interval: 100 * time.Millisecond}
	s := simulate(fairLink(10e6), class)
	for i := range 2 { // a window of 0.2 s; the retransmission comes back later
		s.send(traffic{id: flowClass, flow: i, length: frames, window: 80, delay: 20 * time.Millisecond})
	}
	s.run(3 * time.Second)
	s.run(portPhase)
	without := port(discipline.SFQ)
	u := simulate(fairLink(10e6), without)
	for i := range 2 {
		u.send(traffic{id: flowClass, flow: i, length: frames, window: 80, delay: 20 * time.Millisecond})
	}
	u.run(3 * time.Second)
	u.run(portPhase)
	if got := u.result(t)[1].flow(flowClass, 0); got.dropped > 0 || got.longest < 75*time.Millisecond {
		t.Fatalf("without CoDel: %+v; the test shows nothing", got)
	}
	if got := s.result(t)[0].longest[flowClass]; got < 75*time.Millisecond {
		t.Fatalf("burst waited for %v at the beginning", got)
	}
	if got := s.result(t)[1]; got.longest[flowClass] > 30*time.Millisecond || got.total*8/portPhase.Seconds() < 9.9e6 {
		t.Errorf("with CoDel: waited %v, %.2f Mbit/s", got.longest[flowClass], got.total*8/portPhase.Seconds()/1e6)
	}
}

// TestDisciplineChanges: a change under load loses nothing, whatever it is; the
// simulator checks that all counters add up.
func TestDisciplineChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		link := fairLink(20e6)
		link.Scheduler = rapid.SampledFrom([]string{plan.SchedulerFair, plan.SchedulerQcon}).Draw(t, "scheduler")
		draw := func(id plan.ClassID) plan.Class {
			c := plan.Class{ID: id, Name: "c", Weight: uint32(rapid.IntRange(1, 9).Draw(t, "weight")), Limit: plan.Limit{Bytes: 1 << 24}}
			c.Discipline = rapid.SampledFrom([]discipline.Name{discipline.FIFO, discipline.SFQ, discipline.PQ, discipline.CBWFQ, discipline.LLQ}).Draw(t, "discipline")
			if c.Discipline.HasQueues() {
				n := rapid.IntRange(1, policy.MaxQueues).Draw(t, "queues")
				for range n {
					c.Queues = append(c.Queues, plan.Queue{Weight: policy.Rate(rapid.IntRange(1, 9e6).Draw(t, "weight"))})
				}
				c.Queues[0].Rate = 1e9 // llq: never policed here
				c.Isolation = rapid.SampledFrom([]discipline.Isolation{discipline.ByFlow, discipline.NoIsolation}).Draw(t, "isolation")
			}
			return c
		}
		s := simulate(link, draw(1), draw(2))
		s.send(traffic{id: 1, flow: 20, length: frames, window: 20, delay: 50 * time.Microsecond}) // keeps the link busy
		for id := plan.ClassID(1); id <= 2; id++ {
			for flow := range rapid.IntRange(1, 12).Draw(t, "flows") {
				s.send(traffic{
					id: id, flow: flow, length: rapid.IntRange(60, 3000).Draw(t, "length"),
					window: rapid.IntRange(1, 40).Draw(t, "window"), delay: 300 * time.Microsecond,
				})
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			s.run(time.Duration(rapid.IntRange(1, 50).Draw(t, "ms")) * time.Millisecond)
			s.setClass(draw(plan.ClassID(rapid.IntRange(1, 2).Draw(t, "class"))))
		}
		s.settle()
		s.run(2 * time.Second)
		phases := s.result(t)
		for i, p := range phases[:len(phases)-1] {
			for id, n := range p.dropped {
				if n > 0 {
					t.Fatalf("phase %d: class %d lost %d\n%s", i, id, n, s)
				}
			}
		}
		if last := phases[len(phases)-2]; last.total*8 < 2*20e6*0.97 && link.Scheduler == plan.SchedulerFair {
			t.Fatalf("stalled: %.2f of 20 Mbit/s\n%s", last.total*8/2/1e6, s)
		}
	})
}

// TestQueueWeightChanges: a queue does not wait for what it had at another weight.
func TestQueueWeightChanges(t *testing.T) {
	queues := func(kbit ...policy.Rate) (list []plan.Queue) {
		for i, rate := range kbit {
			list = append(list, plan.Queue{Name: fmt.Sprint("q", i), Weight: rate * 1e3})
		}
		return list
	}
	s := simulate(fairLink(portRate), port(discipline.CBWFQ, queues(1, 8000)...))
	s.send(stream(0, portRate))
	s.send(stream(1, portRate))
	s.run(time.Second)
	s.setClass(port(discipline.CBWFQ, queues(1000, 1000)...))
	s.run(time.Second)
	wantRates(t, s.result(t)[1], time.Second, 0.05, 4, 4)
}

// TestRoomForALargePacket: small packets that fill the class make room for a large
// one of a queue above theirs, however many it takes.
func TestRoomForALargePacket(t *testing.T) {
	c := port(discipline.PQ, weighted(1, 1)...)
	c.Limit.Bytes = 32 << 10
	s := simulate(fairLink(portRate), c)
	large := stream(0, portRate/4)
	s.send(traffic{id: flowClass, flow: 1, length: 64, interval: 40 * time.Microsecond})
	s.run(time.Second)
	s.send(large)
	s.run(time.Second)
	if got := s.result(t)[1].flow(flowClass, 0).dropped; got > 0 {
		t.Errorf("the first queue lost %v packets", got)
	}
}

// TestFlowsOfOneClass: a flow with many packets on their way and one with few get the same; each
// waits for its own, and a sparse one for neither.
func TestFlowsOfOneClass(t *testing.T) {
	s := simulate(fairLink(100e6), port(discipline.SFQ))
	for i, window := range []int{200, 5} {
		s.send(traffic{id: flowClass, flow: i, length: frames, window: window, delay: 100 * time.Microsecond})
	}
	s.send(traffic{id: flowClass, flow: 2, length: 98, interval: 20 * time.Millisecond})
	s.settle()
	s.run(portPhase)
	p := s.result(t)[1]
	wantRates(t, p, portPhase, 0.001, 49.98, 49.98)
	for i, most := range []time.Duration{50 * time.Millisecond, 1300 * time.Microsecond, 50 * time.Microsecond} {
		if waited := p.flow(flowClass, i).longest; waited > most {
			t.Errorf("a packet of flow %d waited for %v, more than %v", i, waited, most)
		}
	}
}
