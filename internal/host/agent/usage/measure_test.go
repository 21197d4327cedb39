// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
)

func TestMeasure(t *testing.T) {
	at := func(second int, c dataplane.Counters) dataplane.LinkCounters {
		return dataplane.LinkCounters{At: begun.Add(time.Duration(second) * time.Second), Classes: map[plan.ClassID]dataplane.Counters{1: c}}
	}
	sent := func(bytes, backlog uint64, drops ...uint64) dataplane.Counters {
		c := dataplane.Counters{SentBytes: bytes, EnqueuedBytes: bytes + backlog*1000, BacklogPackets: backlog, BacklogBytes: backlog * 1000, Drops: map[string]uint64{}}
		for i, n := range drops {
			c.Drops[fmt.Sprint(i)] = n
		}
		return c
	}
	for _, test := range []struct {
		name          string
		before, after dataplane.LinkCounters
		want          Class
	}{
		{"the first look tells nothing", dataplane.LinkCounters{}, at(1, sent(5000, 3)), Class{}},
		{"idle", at(1, sent(5000, 0)), at(2, sent(5000, 0)), Class{}},
		{"content", at(1, sent(0, 0)), at(3, sent(5000, 0)), Class{Rate: 20000, Offered: 20000}},
		{"backlog", at(1, sent(0, 0)), at(2, sent(5000, 2)), Class{Rate: 40000, Offered: 56000, Hungry: true}},
		{"a ping's packet", at(1, sent(0, 0)), at(2, sent(5000, 1)), Class{Rate: 40000, Offered: 48000}},
		{"a packet at both looks", at(1, sent(0, 1)), at(2, sent(5000, 1)), Class{Rate: 40000, Offered: 40000, Hungry: true}},
		{"drops", at(1, sent(0, 0, 1, 2)), at(2, sent(5000, 0, 4, 3)), Class{Rate: 40000, Offered: 40000, DropsPerSecond: 4, Hungry: true}},
		{"made anew", at(1, sent(9000, 0, 7)), at(2, sent(5000, 0)), Class{Rate: 40000, Offered: 40000}},
		{"new", dataplane.LinkCounters{At: begun}, at(1, sent(5000, 0)), Class{Rate: 40000, Offered: 40000}},
		{"clock stood still", at(1, sent(0, 0)), at(1, sent(5000, 0)), Class{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := measure(test.before, test.after)[1]
			if got.Rate != test.want.Rate || got.Offered != test.want.Offered || got.DropsPerSecond != test.want.DropsPerSecond || got.Hungry != test.want.Hungry {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestHistory(t *testing.T) {
	var h History
	if got := h.Of(1); got != nil {
		t.Errorf("nothing noted, but %v", got)
	}
	for i := range HistoryLength + 5 {
		h.Add(map[plan.ClassID]Class{1: {Rate: float64(i)}})
	}
	got := h.Of(1)
	if len(got) != HistoryLength || got[0] != 5 || got[HistoryLength-1] != HistoryLength+4 {
		t.Errorf("%d rates from %v to %v", len(got), got[0], got[len(got)-1])
	}
	h.Add(nil)
	if got := h.Of(1); got != nil {
		t.Errorf("class is gone, but has %v", got)
	}
}

// begun is when the tests' clock begins.
var begun = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
