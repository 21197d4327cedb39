// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
)

// second is what a class did in one second: its rate in Mbit/s, the part of the second in which
// its packets waited, and the part of what it sent that it sent in that time.
type second struct{ rate, waits, meanwhile float64 }

// full is a second in which packets wait all the time.
func full(rate float64) second { return second{rate, 1, 1} }

// bench is a link of 100 Mbit/s with class 1, which has a min, and class 2, which takes the rest.
type bench struct {
	min     policy.Rate
	certain bool // the backend knows only times that are certain, and sees frames at the ends of a second
	change  func(i int, s *plan.State)
}

// scored returns the scores of both classes after some seconds.
func (b bench) scored(seconds []second) (one, two *api.Score) {
	state := plan.State{Link: plan.Link{Device: "eth0", Capacity: 100e6}, Classes: []plan.Class{{ID: 1, Weight: 1, Min: b.min}, {ID: 2, Weight: 1}}}
	var scores Scores
	var before Division
	last := dataplane.LinkCounters{At: begun, Classes: map[plan.ClassID]dataplane.Counters{1: {}, 2: {}}, WaitsWhole: !b.certain}
	for i, s := range seconds {
		if b.change != nil {
			state.Classes = append([]plan.Class(nil), state.Classes...)
			b.change(i, &state)
		}
		next := dataplane.LinkCounters{At: last.At.Add(time.Second), WaitsWhole: !b.certain, Classes: map[plan.ClassID]dataplane.Counters{
			1: after(last.Classes[1], s), 2: after(last.Classes[2], full(100-s.rate))}}
		now := Between(state, last, next)
		scores.Add(next.At, before, now)
		before, last = now, next
	}
	return scores.Of(1, state.Classes[0]), scores.Of(2, state.Classes[1])
}

// after returns counters after one more second.
func after(c dataplane.Counters, s second) dataplane.Counters {
	c.SentBytes += uint64(s.rate * 125_000)
	c.Waited += time.Duration(s.waits * 1e9)
	c.WaitedBytes += uint64(s.meanwhile * s.rate * 125_000)
	c.BacklogPackets, c.BacklogBytes = 10, 10*policy.FullFrame // at the end; it proves nothing
	c.EnqueuedBytes = c.SentBytes + c.BacklogBytes
	return c
}

// repeat returns n seconds that are the same.
func repeat(n int, s second) []second {
	list := make([]second, n)
	for i := range list {
		list[i] = s
	}
	return list
}

func TestScore(t *testing.T) {
	// The minute ends 58 s after begun, and the second that begins then is another minute's.
	starved := append(repeat(40, full(30)), append(repeat(3, full(12)), repeat(18, full(30))...)...)
	for _, test := range []struct {
		name           string
		min            policy.Rate
		seconds        []second
		wanted         int // 0 = there is no score
		kept, worst    float64
		text           string
		others, change bool // judge class 2; class 1's min is raised after 30 s
	}{
		{name: "nothing is wanted", min: 30e6, seconds: repeat(60, second{rate: 10})},
		{name: "kept", min: 30e6, seconds: repeat(61, full(30)), wanted: 60, kept: 1, worst: 1, text: "100.0 % of the 60 s in which it wanted its min, worst minute 100.0 %"},
		{name: "starved for 3 s of 60", min: 30e6, seconds: starved, wanted: 60, kept: 0.95, worst: 55. / 58, text: "95.0 % of the 60 s in which it wanted its min, worst minute 94.8 %"},
		{name: "a share", min: 0, seconds: append(repeat(21, full(50)), repeat(20, full(40))...), wanted: 40, kept: 0.5, worst: 0.5, text: "50.0 % of the 40 s in which it wanted its share, worst minute 50.0 %"},
		{name: "a quiet second is not judged", min: 30e6, seconds: append(repeat(11, full(30)), append(repeat(5, second{rate: 1}), repeat(11, full(30))...)...), wanted: 21, kept: 1, worst: 1, text: "100.0 % of the 21 s in which it wanted its min, worst minute 100.0 %"},
		{name: "a little less is a second's noise", min: 30e6, seconds: repeat(21, full(29.5)), wanted: 20, kept: 1, worst: 1, text: "100.0 % of the 20 s in which it wanted its min, worst minute 100.0 %"},
		{name: "3 % less is not", min: 30e6, seconds: repeat(21, full(29.05)), wanted: 20, kept: 0, worst: 0, text: "0.0 % of the 20 s in which it wanted its min, worst minute 0.0 %"},
		{name: "the second of a change is not judged", min: 30e6, seconds: append(repeat(30, full(30)), repeat(11, full(40))...), change: true, wanted: 39, kept: 1, worst: 1, text: "100.0 % of the 39 s in which it wanted its min, worst minute 100.0 %"},
		{name: "bursts that get more than the min while they wait", min: 30e6, seconds: repeat(61, second{10, 0.25, 0.9}), wanted: 60, kept: 1, worst: 1, text: "100.0 % of the 60 s in which it wanted its min, worst minute 100.0 %"},
		{name: "bursts that get a third of the min while they wait", min: 30e6, seconds: repeat(61, second{4, 0.25, 0.6}), wanted: 60, kept: 0, worst: 0, text: "0.0 % of the 60 s in which it wanted its min, worst minute 0.0 %"},
		{name: "bursts, and one starved second of 60", min: 30e6, seconds: append(repeat(57, second{10, 0.25, 1}), append([]second{{0.1, 0.9, 1}}, repeat(3, second{10, 0.25, 1})...)...), wanted: 60, kept: 59. / 60, worst: 57. / 58, text: "98.3 % of the 60 s in which it wanted its min, worst minute 98.2 %"},
		{name: "a few packets that wait for moments", min: 30e6, seconds: repeat(61, second{5, 0.04, 0.1})},
		{name: "who has its share while another lives on its min", min: 30e6, seconds: repeat(21, full(30)), others: true, wanted: 20, kept: 1, worst: 1, text: "100.0 % of the 20 s in which it wanted its share, worst minute 100.0 %"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := bench{min: test.min}
			if test.change {
				b.change = func(i int, s *plan.State) {
					if i == 30 {
						s.Classes[0].Min = 40e6
					}
				}
			}
			got, two := b.scored(test.seconds)
			if test.others {
				// Class 2 is promised what class 1's min leaves of the link.
				got = two
			}
			if test.wanted == 0 {
				if got != nil {
					t.Fatalf("got %+v, want none", got)
				}
				return
			}
			if got == nil {
				t.Fatal("there is no score")
			}
			if got.WantedSeconds != test.wanted || got.Kept != test.kept || got.WorstMinute != test.worst || got.Text != test.text {
				t.Errorf("got %+v\nwant %d s, %v, worst %v, %q", *got, test.wanted, test.kept, test.worst, test.text)
			}
			if got.WantedSecondsTotal != uint64(test.wanted) || got.KeptSecondsTotal > got.WantedSecondsTotal {
				t.Errorf("totals: %d of %d", got.KeptSecondsTotal, got.WantedSecondsTotal)
			}
		})
	}
}

// An hour later nothing is left of a bad minute but the totals.
func TestScoreForgets(t *testing.T) {
	bad := append(repeat(60, full(1)), repeat(3600+60, full(30))...)
	got, _ := bench{min: 30e6}.scored(bad)
	if got.Kept != 1 || got.WorstMinute != 1 || got.WantedSeconds > 3600 || got.WantedSeconds < 3540 {
		t.Errorf("after an hour: %+v", *got)
	}
	if missed := got.WantedSecondsTotal - got.KeptSecondsTotal; missed != 59 {
		t.Errorf("%d seconds missed in all, want 59: the first is not judged", missed)
	}
}

// A backend that knows only some times of waiting calls no sender starved that may have got all it
// asked for, and finds one that is starved.
func TestScoreWhereWaitingIsNotKnown(t *testing.T) {
	for _, test := range []struct {
		name         string
		seconds      []second
		wanted, kept uint64
	}{
		{"bursts that get what they ask for, with frames at both ends of each second", repeat(61, second{rate: 8}), 0, 0},
		{"bursts that are sometimes known to wait", repeat(61, second{8, 0.4, 0.9}), 0, 0},
		{"what it is promised", repeat(61, second{rate: 30}), 60, 60},
		{"starved for ten seconds", append(repeat(30, second{rate: 30}), append(repeat(10, full(1)), repeat(20, second{rate: 30})...)...), 58, 49},
	} {
		got, _ := bench{min: 30e6, certain: true}.scored(test.seconds)
		if got == nil {
			got = &api.Score{}
		}
		if got.WantedSecondsTotal != test.wanted || got.KeptSecondsTotal != test.kept {
			t.Errorf("%s: kept in %d of %d s, want %d of %d", test.name, got.KeptSecondsTotal, got.WantedSecondsTotal, test.kept, test.wanted)
		}
	}
}
