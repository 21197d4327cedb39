// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/dataplane"
	"weir/internal/goldentest"
	"weir/internal/plan"
	"weir/internal/policy"
)

// scene is a link at one moment, written down as one line for each class:
// "web weight=3 min=20 max=50 sends=42 hungry drops=12", rates in Mbit/s.
func scene(t *testing.T, text string) division {
	t.Helper()
	state := plan.State{Link: plan.Link{Device: "eth0", Capacity: 100e6, Reserve: 1, Scheduler: plan.SchedulerFair}}
	used := map[plan.ClassID]usage{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		id := plan.ClassID(len(state.Classes))
		class, u := plan.Class{ID: id, Name: words[0], Weight: 1}, usage{}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			var n float64
			fmt.Sscan(value, &n)
			switch key {
			case "weight":
				class.Weight = uint32(n)
			case "min":
				class.Min = policy.Rate(n * 1e6)
			case "max":
				class.Max = policy.Rate(n * 1e6)
			case "sends":
				u.rate = n * 1e6
			case "offers":
				u.offered = n * 1e6
			case "group":
				class.Group = true
			case "in":
				class.Parent = plan.ClassID(n)
			case "drops":
				u.lose("class_packets", n)
			case "aqm", "policed", "link_bytes", "class_bytes", "queue_packets", "reset":
				u.lose(key, n)
			case "hungry":
				u.hungry = true
			default:
				t.Fatalf("%q in %q", word, line)
			}
		}
		state.Classes = append(state.Classes, class)
		used[id] = u
	}
	return divide(state, used)
}

// lose notes packets a second that are dropped.
func (u *usage) lose(reason string, n float64) {
	if u.lost == nil {
		u.lost = map[string]float64{}
	}
	u.lost[reason], u.drops, u.hungry = n, u.drops+n, true
}

func TestExplain(t *testing.T) {
	files, err := filepath.Glob("testdata/explain/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenes: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			given, want, _ := strings.Cut(string(text), "---\n")
			d := scene(t, given)
			var got strings.Builder
			for _, class := range d.state.Classes {
				e := explain(d, class.ID)
				fmt.Fprintf(&got, "%s: %s, ideal %s, fair %s, others %d\n", class.Name, e.Binds,
					policy.Approx(e.IdealBps), policy.Approx(e.FairBps), len(e.Others))
				for _, sentence := range e.Text {
					got.WriteString("  " + sentence + "\n")
				}
			}
			if *goldentest.Update {
				if err := os.WriteFile(file, []byte(given+"---\n"+got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				want = got.String()
			}
			if got.String() != want {
				t.Errorf("got\n%s\nwant\n%s", got.String(), want)
			}
		})
	}
}

func TestMeasure(t *testing.T) {
	at := func(second int, c dataplane.Counters) dataplane.Snapshot {
		return dataplane.Snapshot{At: epoch.Add(time.Duration(second) * time.Second), Classes: map[plan.ClassID]dataplane.Counters{1: c}}
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
		before, after dataplane.Snapshot
		want          usage
	}{
		{"the first look tells nothing", dataplane.Snapshot{}, at(1, sent(5000, 3)), usage{}},
		{"idle", at(1, sent(5000, 0)), at(2, sent(5000, 0)), usage{}},
		{"content", at(1, sent(0, 0)), at(3, sent(5000, 0)), usage{rate: 20000, offered: 20000}},
		{"backlog", at(1, sent(0, 0)), at(2, sent(5000, 2)), usage{rate: 40000, offered: 56000, hungry: true}},
		{"a ping's packet", at(1, sent(0, 0)), at(2, sent(5000, 1)), usage{rate: 40000, offered: 48000}},
		{"a packet at both looks", at(1, sent(0, 1)), at(2, sent(5000, 1)), usage{rate: 40000, offered: 40000, hungry: true}},
		{"drops", at(1, sent(0, 0, 1, 2)), at(2, sent(5000, 0, 4, 3)), usage{rate: 40000, offered: 40000, drops: 4, hungry: true}},
		{"made anew", at(1, sent(9000, 0, 7)), at(2, sent(5000, 0)), usage{rate: 40000, offered: 40000}},
		{"new", dataplane.Snapshot{At: epoch}, at(1, sent(5000, 0)), usage{rate: 40000, offered: 40000}},
		{"clock stood still", at(1, sent(0, 0)), at(1, sent(5000, 0)), usage{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := measure(test.before, test.after)[1]
			if got.rate != test.want.rate || got.offered != test.want.offered || got.drops != test.want.drops || got.hungry != test.want.hungry {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestHistory(t *testing.T) {
	var h history
	if got := h.of(1); got != nil {
		t.Errorf("nothing noted, but %v", got)
	}
	for i := range historyLength + 5 {
		h.add(map[plan.ClassID]usage{1: {rate: float64(i)}})
	}
	got := h.of(1)
	if len(got) != historyLength || got[0] != 5 || got[historyLength-1] != historyLength+4 {
		t.Errorf("%d rates from %v to %v", len(got), got[0], got[len(got)-1])
	}
	h.add(nil)
	if got := h.of(1); got != nil {
		t.Errorf("class is gone, but has %v", got)
	}
}

func TestRetry(t *testing.T) {
	var r retry
	var waits []float64
	now := epoch
	for range 6 {
		if !r.due(now) {
			t.Fatalf("not due at %v", now)
		}
		r.failed(now)
		waits = append(waits, r.at.Sub(now).Seconds())
		now = r.at
	}
	if fmt.Sprint(waits) != "[1 2 4 8 8 8]" {
		t.Errorf("waits %v", waits)
	}
	if r.succeeded(); !r.due(epoch) {
		t.Error("not due after success")
	}
}

// epoch is when the tests' clocks begin.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
