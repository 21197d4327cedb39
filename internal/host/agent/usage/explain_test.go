// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/test/goldentest"
)

// scene is a link at one moment, written down as one line for each class:
// "web weight=3 min=20 max=50 sends=42 hungry drops=12", rates in Mbit/s.
func scene(t *testing.T, text string) Division {
	t.Helper()
	state := plan.State{Link: plan.Link{Device: "eth0", Capacity: 100e6, Reserve: 1, Scheduler: plan.SchedulerFair}}
	used := map[plan.ClassID]Class{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		id := plan.ClassID(len(state.Classes))
		class, u := plan.Class{ID: id, Name: words[0], Weight: 1}, Class{}
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
				u.Rate = n * 1e6
			case "offers":
				u.Offered = n * 1e6
			case "group":
				class.Group = true
			case "in":
				class.Parent = plan.ClassID(n)
			case "drops":
				u.lose("class_packets", n)
			case "aqm", "policed", "link_bytes", "class_bytes", "queue_packets", "reset":
				u.lose(key, n)
			case "hungry":
				u.Hungry = true
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
func (u *Class) lose(reason string, n float64) {
	if u.Lost == nil {
		u.Lost = map[string]float64{}
	}
	u.Lost[reason], u.DropsPerSecond, u.Hungry = n, u.DropsPerSecond+n, true
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
			for _, class := range d.State.Classes {
				e := d.Explain(class.ID)
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
