// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
)

// sparseFlow is the number of the flow that sends little, in a class that sends all it can.
const sparseFlow = 7

// busy makes class id send all it can by this many bulk flows.
func (s *simulation) busy(id plan.ClassID, flows int) {
	for f := range flows {
		s.send(traffic{id: id, flow: f, length: frames, window: 40, delay: 200 * time.Microsecond})
	}
}

// ping makes flow f of class id send as the lab's ping does.
func (s *simulation) ping(id plan.ClassID, f int) {
	s.send(traffic{id: id, flow: f, length: 98, interval: 21300 * time.Microsecond})
}

// weightOnes are this many classes of weight 1, from class 1 on.
func weightOnes(n int) (classes []plan.Class) {
	for range n {
		classes = append(classes, plan.Class{ID: plan.ClassID(len(classes) + 1), Weight: 1})
	}
	return classes
}

// behindLine returns how long each packet of a traced phase waited in the qdisc and in a
// line of this rate behind it, in the order of leaving.
func (p phase) behindLine(line policy.Rate) (waits []departure) {
	for _, left := range p.left {
		waits = append(waits, left...)
	}
	slices.SortFunc(waits, func(a, b departure) int { return cmp.Compare(a.order, b.order) })
	var free time.Duration
	for i, d := range waits {
		waits[i].waited = max(d.at, free) - d.born
		free = max(d.at, free) + time.Duration(float64(d.length)*8e9/float64(line))
	}
	return waits
}

// percentile returns the p-th percentile of how long flow f of class id waited.
func percentile(waits []departure, id plan.ClassID, f int, p float64) time.Duration {
	var list []time.Duration
	for _, d := range waits {
		if d.id == id && d.flow == f {
			list = append(list, d.waited)
		}
	}
	slices.Sort(list)
	return list[int(p/100*float64(len(list)-1))]
}

// TestSparseFlowsOfBusyClasses: a flow that sends little in a class that sends all it can
// does not wait for the class's turn, nor for a batch, on slow links and fast ones, beside
// one busy class and beside eight; and the shares stay.
func TestSparseFlowsOfBusyClasses(t *testing.T) {
	for _, capacity := range []policy.Rate{20e6, 100e6, 400e6} {
		for _, others := range []int{1, 8} {
			t.Run(fmt.Sprintf("%v beside %d", capacity, others), func(t *testing.T) {
				classes := weightOnes(others + 1)
				s := simulate(fairLink(capacity), classes...)
				s.busy(1, 2)
				for _, c := range classes[1:] {
					s.busy(c.ID, 4)
				}
				s.send(traffic{id: 1, flow: sparseFlow, length: 98, interval: 9 * time.Millisecond})
				s.settle()
				s.run(4 * time.Second)
				p := s.result(t)[1]
				if longest := p.flow(1, sparseFlow).longest; longest > 300*time.Microsecond {
					t.Errorf("the ping waited %v", longest)
				}
				holds(t, fairLink(capacity), classes, ids(classes), p, 4*time.Second, 0.01)
			})
		}
	}
}

// TestFlowsAheadOfTheirShare: a flow that wants more than its share by short packets, one at a
// time, such as the ACKs of a download of which only the newest waits, has its share and is never
// held back for longer than a slow line takes for two frames of the bulk flow beside it.
func TestFlowsAheadOfTheirShare(t *testing.T) {
	for _, rate := range []policy.Rate{500e3, 1e6, 2e6} {
		t.Run(rate.String(), func(t *testing.T) {
			s := simulate(fairLink(rate), weightOnes(1)...)
			s.busy(1, 1)
			s.send(traffic{id: 1, flow: sparseFlow, length: 66, window: 1, delay: 20 * time.Microsecond})
			s.settle()
			s.run(4 * time.Second)
			p := s.result(t)[1]
			got, frame := p.flow(1, sparseFlow), time.Duration(frames*8e9/float64(rate))
			t.Logf("it waited %v at most, a frame takes %v", got.longest, frame)
			if got.longest > 2*frame {
				t.Errorf("it waited %v, a frame takes %v", got.longest, frame)
			}
			if share := got.sent / p.sent[1]; share < 0.48 || share > 0.52 {
				t.Errorf("it has %.1f %% of the class's bytes, its share is a half", 100*share)
			}
		})
	}
}

// TestACKsGiveWay: the 1,300 ACKs a second of a download of 30 Mbit/s want 0.69 Mbit/s. On 0.5
// Mbit/s, where each that waits gives way to the next, one leaves between any two frames of the
// bulk flow beside them, none is older than the coming of the next, and both have their half.
func TestACKsGiveWay(t *testing.T) {
	const rate, over, each = 500e3, 20 * time.Second, time.Second / 1300
	class := plan.Class{ID: 1, Weight: 1, AQM: plan.AQM{Target: discipline.DefaultTarget, Interval: discipline.DefaultInterval, ACKFilter: true}}
	s := simulate(fairLink(rate), class)
	s.busy(1, 1)
	s.send(traffic{id: 1, flow: sparseFlow, acks: each})
	s.settle()
	s.trace(1)
	s.run(over)
	p := s.result(t)[1]
	var last, gap time.Duration
	for _, d := range p.behindLine(100e9) {
		if d.flow == sparseFlow {
			gap, last = max(gap, d.at-cmp.Or(last, d.at)), d.at
		}
	}
	acks, frame := p.flow(1, sparseFlow), time.Duration(frames*8e9/rate)
	t.Logf("no ACK left for %v, a frame takes %v; one waited %v at most", gap, frame, acks.longest)
	if gap > frame+frame/4 || acks.longest > each+time.Millisecond/10 {
		t.Errorf("no ACK left for %v, a frame takes %v; one waited %v", gap, frame, acks.longest)
	}
	half := rate / 8 * over.Seconds() / 2
	for f, sent := range map[string]float64{"the ACKs": acks.sent, "the bulk flow": p.flow(1, 0).sent} {
		if sent < 0.98*half || sent > 1.02*half {
			t.Errorf("%s: %.0f bytes, half of the line is %.0f", f, sent, half)
		}
	}
}

// TestSparseFlowsInGroups: the same in a class of a group, whose other members send all
// they can, as do a class and a group beside them.
func TestSparseFlowsInGroups(t *testing.T) {
	for _, capacity := range []policy.Rate{20e6, 100e6, 400e6} {
		t.Run(capacity.String(), func(t *testing.T) {
			classes := []plan.Class{
				{ID: 1, Weight: 1, Group: true}, {ID: 2, Weight: 1, Group: true},
				{ID: 11, Weight: 1, Parent: 1}, {ID: 12, Weight: 1, Parent: 1},
				{ID: 21, Weight: 1, Parent: 2}, {ID: 22, Weight: 1, Parent: 2},
				{ID: 31, Weight: 1},
			}
			s := simulate(fairLink(capacity), classes...)
			for _, c := range classes[2:] {
				s.busy(c.ID, 2)
			}
			s.ping(11, sparseFlow)
			for f := range 3 { // three at once
				s.ping(12, sparseFlow+f)
			}
			s.settle()
			s.run(4 * time.Second)
			p := s.result(t)[1]
			for id, flows := range map[plan.ClassID]int{11: 1, 12: 3} {
				for f := range flows {
					if longest := p.flow(id, sparseFlow+f).longest; longest > 300*time.Microsecond {
						t.Errorf("ping %d of class %d waited %v", f, id, longest)
					}
				}
			}
			for _, c := range classes[2:] {
				want := float64(capacity) / 3
				if c.Parent > 0 {
					want /= 2
				}
				if rate := p.rate(c.ID, 4*time.Second); rate < 0.98*want || rate > 1.02*want {
					t.Errorf("class %d: %.2f Mbit/s, ideal %.2f", c.ID, rate/1e6, want/1e6)
				}
			}
		})
	}
}

// TestManySparseFlowsGainNothing: a class of two hundred flows that have one packet each,
// or whose every packet is of a flow of its own, gets its share and no more, and neither
// the sparse flow of an honest busy class nor a quiet class waits longer than beside bulk.
func TestManySparseFlowsGainNothing(t *testing.T) {
	for _, others := range []int{1, 9} {
		const (
			line  = policy.Rate(1e9)
			hosts = 30 * time.Microsecond // of the lab's 50 for a ping in a quiet class
		)
		classes := weightOnes(others + 2)
		quiet := classes[others+1].ID
		run := func(greedy func(s *simulation)) phase {
			s := simulate(fairLink(100e6), classes...)
			greedy(s)
			for _, c := range classes[1 : others+1] {
				s.busy(c.ID, 4)
			}
			s.send(traffic{id: 2, flow: sparseFlow, length: 98, interval: 9 * time.Millisecond})
			s.send(traffic{id: quiet, length: 98, interval: 9 * time.Millisecond})
			s.settle()
			s.trace(1)
			s.run(4 * time.Second)
			return s.result(t)[1]
		}
		honest := run(func(s *simulation) { s.busy(1, 4) }).behindLine(line)
		for name, greedy := range map[string]func(s *simulation){
			"one packet each of 200 flows": func(s *simulation) {
				for f := range 200 {
					s.send(traffic{id: 1, flow: f, length: frames, window: 1, delay: time.Microsecond})
				}
			},
			"one packet at a time from 255 ports, and bulk": func(s *simulation) {
				for f := range 255 {
					s.send(traffic{id: 1, flow: f, length: 98, window: 1, delay: 3 * time.Millisecond})
				}
				s.send(traffic{id: 1, flow: 255, length: frames, window: 40, delay: time.Microsecond})
			},
			"a new flow for each packet": func(s *simulation) {
				for f := range 20 {
					s.send(traffic{id: 1, flow: f, length: frames, delay: time.Microsecond, packets: 1})
				}
			},
			"a thousand small flows": func(s *simulation) {
				for f := range 100 {
					s.send(traffic{id: 1, flow: f, length: 66, delay: time.Microsecond, packets: 1})
				}
			},
		} {
			t.Run(fmt.Sprintf("%s beside %d", name, others), func(t *testing.T) {
				p := run(greedy)
				ideal := 1 / float64(others+1)
				if share := p.sent[1] / (p.total - p.sent[quiet]); share < ideal*0.99 || share > ideal*1.01 {
					t.Errorf("it gets %.2f %% of the link, ideal is %.2f %%", share*100, ideal*100)
				}
				waits := p.behindLine(line)
				for who, f := range map[plan.ClassID]int{2: sparseFlow, quiet: 0} {
					was, is := hosts+percentile(honest, who, f, 99), hosts+percentile(waits, who, f, 99)
					t.Logf("%s: class %d, flow %d: p99 %v, beside bulk %v", name, who, f, is, was)
					if is > was+was/10 {
						t.Errorf("class %d, flow %d: p99 %v, beside bulk %v", who, f, is, was)
					}
				}
			})
		}
	}
}

// TestRequestsInsideABusyClass: four clients that open a connection for each request, and a
// ping, in a class with two bulk flows, beside one class and beside eight that send all they
// can. Where the requests alone want more than the class's share, each waits for the others'
// and for a frame of the bulk flows, which are not forgotten; none waits for longer, and all
// clients get the same.
func TestRequestsInsideABusyClass(t *testing.T) {
	const (
		clients, size = 4, 604 // bytes of a request
		host          = 150 * time.Microsecond
		over          = 3 * time.Second
		pingFlow      = 30
	)
	for _, capacity := range []policy.Rate{20e6, 100e6, 400e6} {
		for _, others := range []int{1, 8} {
			t.Run(fmt.Sprintf("%v beside %d", capacity, others), func(t *testing.T) {
				classes := weightOnes(others + 1)
				s := simulate(fairLink(capacity), classes...)
				s.busy(1, 2)
				for _, c := range classes[1:] {
					s.busy(c.ID, 4)
				}
				for f := range clients {
					s.send(traffic{id: 1, flow: sparseFlow + f, delay: host, requests: true})
				}
				s.ping(1, pingFlow)
				s.settle()
				s.trace(1)
				s.run(over)
				p := s.result(t)[1]
				holds(t, fairLink(capacity), classes, ids(classes), p, over, 0.01)

				share := float64(capacity) / float64(others+1)
				takes := func(bytes float64) time.Duration { return time.Duration(bytes * 8e9 / share) }
				all, frame := takes(clients*size), takes(frames)
				for f := range clients {
					answers := p.answers[traffic{id: 1, flow: sparseFlow + f}]
					slices.Sort(answers)
					n := len(answers)
					p50, p99, most := answers[n/2], answers[n*99/100], answers[n-1]
					t.Logf("client %d: %.0f requests/s, p50 %v, p99 %v, most %v", f, float64(n)/over.Seconds(), p50, p99, most)
					if p99 > all+frame*3/2+2*host || most > all+2*frame+3*host {
						t.Errorf("client %d: p99 %v, most %v; all clients' requests take %v, a frame %v", f, p99, most, all, frame)
					}
					first := p.flow(1, sparseFlow).sent
					if sent := p.flow(1, sparseFlow+f).sent; sent < 0.98*first || sent > 1.02*first {
						t.Errorf("client %d sent %.0f bytes, client 0 %.0f", f, sent, first)
					}
				}
				if most := percentile(p.behindLine(100e9), 1, pingFlow, 100); most > all+2*frame {
					t.Errorf("a ping waited %v", most)
				}
				for f := range 2 {
					if sent := p.flow(1, f).sent; sent < 0.012*p.sent[1] {
						t.Errorf("bulk flow %d sent %.0f of the class's %.0f bytes", f, sent, p.sent[1])
					}
				}
			})
		}
	}
}

// chatter makes class id send what any host does: ARP, two questions to a name server a
// second, a ping every five seconds.
func (s *simulation) chatter(id plan.ClassID) {
	for flow, each := range []time.Duration{1300 * time.Millisecond, time.Second, time.Second, 5 * time.Second} {
		s.send(traffic{id: id, flow: 20 + flow, length: 80, interval: each})
	}
}

// TestChatterHasNoPrice: a stray packet now and then, of a quiet class or in a class that
// sends all it can, makes no batches short: a timer costs more than all other work. It goes
// first all the same.
func TestChatterHasNoPrice(t *testing.T) {
	const over = 20 * time.Second
	classes := weightOnes(4)
	run := func(chatter ...plan.ClassID) phase {
		s := simulate(fairLink(100e6), classes...)
		for _, c := range classes[:3] {
			s.busy(c.ID, 1)
		}
		for _, id := range chatter {
			s.chatter(id)
		}
		s.settle()
		s.run(over)
		return s.result(t)[1]
	}
	none := run()
	if batch := over / time.Duration(none.timers); batch < 800*time.Microsecond {
		t.Errorf("a batch is %v without chatter", batch)
	}
	for _, id := range []plan.ClassID{1, 4} {
		with := run(id)
		t.Logf("chatter in class %d: a timer each %v, without each %v", id, over/time.Duration(with.timers), over/time.Duration(none.timers))
		if float64(with.timers) > 1.02*float64(none.timers) {
			t.Errorf("chatter in class %d: %d timers, without %d", id, with.timers, none.timers)
		}
		for f := range 4 {
			if longest := with.flow(id, 20+f).longest; longest > 10*time.Microsecond {
				t.Errorf("class %d: a stray packet waited %v", id, longest)
			}
		}
	}
}

// TestTurnsAreBatches: in a long batch one class sends, so that one receiver is woken for it,
// also after a stray packet has taken a part of one.
func TestTurnsAreBatches(t *testing.T) {
	s := simulate(fairLink(100e6), weightOnes(4)...)
	for _, c := range s.classes[:3] {
		s.send(traffic{id: c.ID, length: frames, window: 10, delay: 50 * time.Microsecond})
	}
	s.chatter(4)
	s.chatter(1)
	s.settle()
	s.trace(1)
	s.run(4 * time.Second)
	p := s.result(t)[1]
	batches, senders := map[time.Duration]bool{}, 0
	for _, c := range s.classes[:3] {
		last := time.Duration(-1)
		for _, d := range p.left[c.ID] {
			if d.length == frames && d.at != last {
				senders, last = senders+1, d.at
				batches[d.at] = true
			}
		}
	}
	if most := len(batches) + len(batches)/50; senders > most || len(batches) == 0 {
		t.Errorf("%d classes sent in %d batches", senders, len(batches))
	}
}

// TestPingsBehindALineHardlyFaster: with a line of 110 Mbit/s behind a link of 100, a ping
// waits in qdisc and line together for a short batch, whether its class is quiet or busy.
// A packet that goes first into a line that is full of a long batch gains nothing by it.
func TestPingsBehindALineHardlyFaster(t *testing.T) {
	classes := weightOnes(6)
	for _, id := range []plan.ClassID{1, 6} {
		s := simulate(fairLink(100e6), classes...)
		for _, c := range classes[:5] {
			s.busy(c.ID, 2)
		}
		s.ping(id, sparseFlow)
		s.settle()
		s.trace(1)
		s.run(5 * time.Second)
		p99 := percentile(s.result(t)[1].behindLine(110e6), id, sparseFlow, 99)
		t.Logf("class %d: p99 %v", id, p99)
		if p99 > mostBefore {
			t.Errorf("class %d: the ping's p99 is %v, want at most %v", id, p99, mostBefore)
		}
	}
}

// TestSmallWindowsAreNotSparse: bulk flows that have no more than a packet or two on their
// way, as TCP's small queues leave them, find their queues empty all the time. They do not
// pass for sparse flows: batches stay long.
func TestSmallWindowsAreNotSparse(t *testing.T) {
	for _, window := range []int{1, 2, 4} {
		for _, flows := range []int{1, 4} {
			s := simulate(fairLink(100e6), weightOnes(3)...)
			for _, c := range s.classes {
				for f := range flows {
					s.send(traffic{id: c.ID, flow: f, length: frames, window: window, delay: 30 * time.Microsecond})
				}
			}
			s.settle()
			s.run(4 * time.Second)
			if each := 4 * time.Second / time.Duration(s.result(t)[1].timers); each < 800*time.Microsecond {
				t.Errorf("%d flows of a window of %d: a timer each %v", flows, window, each)
			}
		}
	}
}
