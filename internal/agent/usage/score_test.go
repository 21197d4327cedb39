// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/dataplane"
	"weir/internal/plan"
	"weir/internal/policy"
)

// second is what a class did in one second: its rate in Mbit/s, and whether frames waited at
// the end of it.
type second struct {
	rate  float64
	waits bool
}

// scored returns the score of class 1, which has a min, beside a class 2 that takes the rest of
// 100 Mbit/s, and of that one.
func scored(t *testing.T, minimum policy.Rate, seconds []second, change func(i int, s *plan.State)) (one, two *api.Score) {
	t.Helper()
	state := plan.State{Link: plan.Link{Device: "eth0", Capacity: 100e6}, Classes: []plan.Class{{ID: 1, Weight: 1, Min: minimum}, {ID: 2, Weight: 1}}}
	var scores Scores
	var before Division
	waiting := dataplane.Counters{BacklogPackets: 5, BacklogBytes: 5 * policy.FullFrame}
	last := dataplane.Snapshot{At: begun, Classes: map[plan.ClassID]dataplane.Counters{1: waiting, 2: waiting}}
	for i, s := range seconds {
		if change != nil {
			state.Classes = append([]plan.Class(nil), state.Classes...)
			change(i, &state)
		}
		a, b := last.Classes[1], last.Classes[2]
		a.SentBytes += uint64(s.rate * 125_000)
		a.EnqueuedBytes, a.BacklogPackets, a.BacklogBytes = a.SentBytes, 10, 10*200 // ten small packets are no sign of want
		if s.waits {
			a.BacklogPackets, a.BacklogBytes = waiting.BacklogPackets, waiting.BacklogBytes
		}
		b.SentBytes += uint64((100 - s.rate) * 125_000)
		b.EnqueuedBytes = b.SentBytes
		next := dataplane.Snapshot{At: last.At.Add(time.Second), Classes: map[plan.ClassID]dataplane.Counters{1: a, 2: b}}
		now := Between(state, last, next)
		scores.Add(next.At, before, now)
		before, last = now, next
	}
	return scores.Of(1, state.Classes[0]), scores.Of(2, state.Classes[1])
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
	// The first second is not judged, and the minute ends 58 s after begun: 55 of 58 were kept.
	starved := append(repeat(40, second{30, true}), append(repeat(3, second{12, true}), repeat(18, second{30, true})...)...)
	for _, test := range []struct {
		name           string
		min            policy.Rate
		seconds        []second
		wanted         int // 0 = there is no score
		kept, worst    float64
		text           string
		others, change bool // judge class 2; class 1's min is raised after 30 s
	}{
		{name: "nothing is wanted", min: 30e6, seconds: repeat(60, second{10, false})},
		{name: "kept", min: 30e6, seconds: repeat(61, second{30, true}), wanted: 60, kept: 1, worst: 1, text: "100.0 % of the 60 s in which it wanted its min, worst minute 100.0 %"},
		{name: "starved for 3 s of 60", min: 30e6, seconds: starved, wanted: 60, kept: 0.95, worst: 55. / 58, text: "95.0 % of the 60 s in which it wanted its min, worst minute 94.8 %"},
		{name: "a share", min: 0, seconds: append(repeat(21, second{50, true}), repeat(20, second{40, true})...), wanted: 40, kept: 0.5, worst: 0.5, text: "50.0 % of the 40 s in which it wanted its share, worst minute 50.0 %"},
		{name: "a quiet second is not judged", min: 30e6, seconds: append(repeat(11, second{30, true}), append(repeat(5, second{1, false}), repeat(11, second{30, true})...)...), wanted: 20, kept: 1, worst: 1, text: "100.0 % of the 20 s in which it wanted its min, worst minute 100.0 %"},
		{name: "a little less is a second's noise", min: 30e6, seconds: repeat(21, second{29.5, true}), wanted: 20, kept: 1, worst: 1, text: "100.0 % of the 20 s in which it wanted its min, worst minute 100.0 %"},
		{name: "3 % less is not", min: 30e6, seconds: repeat(21, second{29.05, true}), wanted: 20, kept: 0, worst: 0, text: "0.0 % of the 20 s in which it wanted its min, worst minute 0.0 %"},
		{name: "the second of a change is not judged", min: 30e6, seconds: append(repeat(30, second{30, true}), repeat(11, second{40, true})...), change: true, wanted: 39, kept: 1, worst: 1, text: "100.0 % of the 39 s in which it wanted its min, worst minute 100.0 %"},
		{name: "who has its share while another lives on its min", min: 30e6, seconds: repeat(21, second{30, true}), others: true, wanted: 20, kept: 1, worst: 1, text: "100.0 % of the 20 s in which it wanted its share, worst minute 100.0 %"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var change func(int, *plan.State)
			if test.change {
				change = func(i int, s *plan.State) {
					if i == 30 {
						s.Classes[0].Min = 40e6
					}
				}
			}
			got, two := scored(t, test.min, test.seconds, change)
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
	bad := append(repeat(60, second{1, true}), repeat(3600+60, second{30, true})...)
	got, _ := scored(t, 30e6, bad, nil)
	if got.Kept != 1 || got.WorstMinute != 1 || got.WantedSeconds > 3600 || got.WantedSeconds < 3540 {
		t.Errorf("after an hour: %+v", *got)
	}
	if missed := got.WantedSecondsTotal - got.KeptSecondsTotal; missed != 59 {
		t.Errorf("%d seconds missed in all, want 59: the first is not judged", missed)
	}
}
