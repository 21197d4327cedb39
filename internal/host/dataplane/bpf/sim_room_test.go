// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/framing"
)

// TestPacketShorterThanANegativeOverhead: frames of 42 bytes (ARP) on a link with
// `overhead: -64` must not stop it. A sum that wraps would charge each of them
// 4,294,967,274 bytes, minutes of the link's time.
func TestPacketShorterThanANegativeOverhead(t *testing.T) {
	for _, scheduler := range []string{plan.SchedulerFair, plan.SchedulerQcon, plan.SchedulerAncs} {
		for _, d := range []discipline.Name{discipline.FIFO, discipline.SFQ, discipline.PQ} {
			t.Run(scheduler+"/"+string(d), func(t *testing.T) {
				link := fairLink(100 * mbit)
				link.Scheduler, link.Framing.Overhead = scheduler, -64
				short := plan.Class{ID: 1, Weight: 1, Discipline: d}
				if d == discipline.PQ {
					short.Queues = []plan.Queue{{Name: "a"}}
				}
				classes := []plan.Class{short, {ID: 2, Weight: 1}}
				s := simulate(link, classes...)
				s.send(traffic{id: 1, length: 42, interval: 10 * time.Millisecond})
				s.send(greedy(2))
				s.settle()
				s.run(5 * time.Second)
				got := s.result(t)[1]
				if rate := got.rate(2, 5*time.Second); rate < 99e6 {
					t.Errorf("beside short packets class 2 sends %.3f of 100 Mbit/s", rate/1e6)
				}
				if sent := got.sent[1]; sent != 500 {
					t.Errorf("500 packets of 42 bytes are charged %.0f bytes, want 1 each", sent)
				}
			})
		}
	}
}

// TestShortFrames: a packet socket sends frames that are nothing but an Ethernet header, 14 bytes.
// A network card makes 60 of them. On a link without a framing they count as 14, so that the wire
// has at most 60/14 times a max of them, which docs/security.md says; with `overhead: ethernet`
// each counts what it takes, 84.
func TestShortFrames(t *testing.T) {
	const (
		header = 14
		padded = 60
		limit  = 10 * mbit
	)
	for name, x := range map[string]struct {
		counted int     // bytes of a frame
		most    float64 // times the max, on the wire
	}{"none": {header, 4.29}, "ethernet": {84, 1}} {
		t.Run(name, func(t *testing.T) {
			link := fairLink(100 * mbit)
			var err error
			if link.Framing, err = framing.Parse(name); err != nil {
				t.Fatal(err)
			}
			s := simulate(link, plan.Class{ID: 1, Weight: 1, Max: limit})
			s.send(traffic{id: 1, length: header, window: 1000})
			s.settle()
			s.run(2 * time.Second)
			rate := s.result(t)[1].rate(1, 2*time.Second)
			taken := rate / float64(x.counted) * max(padded, float64(x.counted)) / float64(limit)
			t.Logf("counted %.3f Mbit/s, the wire carries %.3f times the max", rate/1e6, taken)
			if taken > 1.01*x.most || taken < 0.98*x.most {
				t.Errorf("the wire carries %.3f times the max, want %.2f", taken, x.most)
			}
		})
	}
}

// TestFloodsOfLargePacketsLeaveRoomToAMin: two floods of offloaded packets fill
// what may wait on the link, in bytes, long before slots run short. A class with
// a min must find room there at any time.
func TestFloodsOfLargePacketsLeaveRoomToAMin(t *testing.T) {
	for _, length := range []int{frames, 65000} {
		link := fairLink(10000 * mbit)
		classes := []plan.Class{{ID: 1, Weight: 1}, {ID: 2, Weight: 1}, {ID: 3, Weight: 1, Min: 4000 * mbit}}
		s := simulate(link, classes...)
		for _, id := range []plan.ClassID{1, 2} {
			s.send(traffic{id: id, length: 65000, interval: 52 * time.Microsecond}) // 10 Gbit/s each
		}
		s.settle()
		s.send(traffic{id: 3, length: length, window: 64 << 20 / length, delay: 100 * time.Microsecond})
		s.settle()
		s.run(2 * time.Second)
		got := s.result(t)[2]
		if rate := got.rate(3, 2*time.Second); rate < 4e9*0.985 {
			t.Errorf("packets of %d bytes: %.3f Gbit/s, want its min of 4", length, rate/1e9)
		}
		if rate := got.total * 8 / 2; rate < 0.999*10e9 {
			t.Errorf("packets of %d bytes: the link carries %.3f Gbit/s, want 10", length, rate/1e9)
		}
	}
}

// TestHeldFloodsLeaveRoomToAMin: the same where the floods wait for their schedule,
// before they are in a queue.
func TestHeldFloodsLeaveRoomToAMin(t *testing.T) {
	link := fairLink(10000 * mbit)
	classes := []plan.Class{{ID: 4, Weight: 1, Min: 4000 * mbit}}
	for id := plan.ClassID(1); id <= 3; id++ {
		queues := weighted(1, 1)
		queues[0].Reserve, queues[0].Interval = 10*mbit, plan.IntervalOf(10*mbit)
		classes = append(classes, plan.Class{ID: id, Weight: 1, Discipline: discipline.CBWFQ, Queues: queues})
	}
	s := simulate(link, classes...)
	for _, c := range classes[1:] {
		s.send(traffic{id: c.ID, length: 65000, interval: 52 * time.Microsecond})
	}
	s.settle()
	s.send(traffic{id: 4, length: frames, window: 1000, delay: 100 * time.Microsecond})
	s.run(100 * time.Millisecond)
	s.run(300 * time.Millisecond)
	got := s.result(t)[2]
	if rate := got.rate(4, 300*time.Millisecond); rate < 9.9e9 || got.dropped[4] > 0 {
		t.Errorf("beside floods that may send 0.03 Gbit/s: %.3f Gbit/s and %d packets lost, want the rest of 10 and 0", rate/1e9, got.dropped[4])
	}
}
