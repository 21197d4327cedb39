// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/test/goldentest"
)

func golden(t *testing.T, name, got string) {
	t.Helper()
	var trimmed strings.Builder // what ends in blanks ends up without them in an editor
	for line := range strings.SplitSeq(got, "\n") {
		trimmed.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	goldentest.Check(t, filepath.Join("testdata", name+".golden"), trimmed.String())
}

func themeWith(p termenv.Profile) theme {
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(p)
	return themeOf(r)
}

// link returns a link that is nearly full.
func link(device string, capacity uint64) api.LinkStatus {
	return api.LinkStatus{
		Device: device, Direction: "egress", Backend: "bpf", Scheduler: "fair",
		CapacityBps: capacity, ReservedBps: capacity / 5, FreeBps: capacity - capacity/5, RateBps: 0.93 * float64(capacity),
	}
}

// demoState has seen 60 seconds in which web grew, batch was steady and cam
// came late.
func demoState() *state {
	s := &state{}
	for second := range 60 {
		sample := api.Sample{
			At:        apitest.Start.Add(time.Duration(second) * time.Second),
			Links:     []api.LinkStatus{link("eth0", 100e6)},
			Workloads: apitest.Demo(),
		}
		sample.Workloads[1].Links[0].RateBps = 50e6 * float64(second+1) / 60
		if second < 40 {
			sample.Workloads[3].Links = nil
		}
		s.add(sample)
	}
	return s
}

func demoScreen(width, height int) screen {
	return screen{
		state: demoState(), width: width, height: height, sort: orders[0], location: time.UTC,
		selected: rowID{"eth0", "docker:web"}, theme: themeWith(termenv.Ascii),
	}
}

func manyWorkloads(link string, n int) []api.Workload {
	ws := make([]api.Workload, n)
	for i := range ws {
		ws[i] = apitest.Workload(fmt.Sprintf("w%03d", i), 1, 0, 0, 1)
		ws[i].Key = link + ws[i].Name
		ws[i].Links[0].Device = link
	}
	return ws
}

// TestRender shows the same minute on screens of several sizes, and the screen's
// special moments.
func TestRender(t *testing.T) {
	for _, tt := range []struct {
		name   string
		width  int
		height int
		change func(*screen)
	}{
		{"wide", 140, 14, nil},
		{"100", 100, 14, nil},
		{"80", 80, 14, nil},
		{"60", 60, 14, nil},
		{"40", 40, 14, nil},
		{"low", 100, 5, nil},
		{"waiting", 80, 5, func(s *screen) { s.state = &state{} }},
		{"paused", 80, 10, func(s *screen) { s.paused = true; s.sort = orders[1] }},
		{"lost", 80, 10, func(s *screen) { s.lost = "the agent is gone; waiting for it to come back" }},
		{"explaining", 80, 18, func(s *screen) {
			s.explaining = "web on eth0, egress (upload): 50 Mbit/s\n  " + strings.Repeat("It gets what is left. ", 6) + "\n\n  decided by  its fair share\n"
		}},
		{"unsteered", 100, 8, func(s *screen) {
			l := link("eth1", 1e9)
			l.Error = "eth1 has qdisc cake 8001: that Weir did not set; replace it with --force"
			s.state.sample.Links = append(s.state.sample.Links, l)
		}},
		{"troubled", 100, 12, func(s *screen) {
			ws := apitest.Demo()
			ws[1].State, ws[1].Note = "refused", "link eth0: min is not in force: asked 90 Mbit/s, reserved 20 Mbit/s of 100 Mbit/s, free 80 Mbit/s"
			ws[2].State, ws[2].Note = "not held", "link eth0: discipline llq is not held: HTB has one queue for each workload"
			ws[3].State, ws[3].Note, ws[3].Links = "waiting", "", nil
			s.state.sample.Workloads = ws
			l := &s.state.sample.Links[0]
			l.Backend, l.Scheduler = "tc", "htb"
			l.NotHeld = []api.PolicyGap{{Device: "eth0", Field: "scheduler", Value: "qcon", Reason: "HTB schedules in its place"}}
		}},
		{"troubled full", 80, 9, func(s *screen) {
			ws := manyWorkloads("eth0", 30)
			for i := range ws[:5] {
				ws[i].State, ws[i].Note = "refused", "link eth0: min is not in force"
			}
			s.state.sample.Workloads = ws
		}},
		{"two links", 110, 16, func(s *screen) {
			s.state.sample.Links = append(s.state.sample.Links, link("wan0", 25e9))
			s.state.sample.Workloads = append(s.state.sample.Workloads, manyWorkloads("wan0", 3)...)
		}},
		{"scrolled", 80, 9, func(s *screen) {
			s.state.sample.Workloads = manyWorkloads("eth0", 300)
			s.offset, s.selected = 120, rowID{"eth0", "eth0w123"}
		}},
		{"groups", 100, 12, func(s *screen) {
			sample := s.state.sample
			sample.At = sample.At.Add(time.Second)
			sample.Workloads = apitest.Demo()
			sample.Workloads[1].Policy.Group, sample.Workloads[3].Policy.Group = "tenant-b", "tenant-b"
			sample.Workloads[2].Policy.Group = "gone" // a group that is no longer there
			sample.Groups, _ = apitest.New(sample.Workloads...).WithGroup("tenant-b", 2, 20, 70).WithGroup("empty", 1, 0, 0).Groups(context.Background())
			s.state.add(sample)
		}},
		{"no workloads", 80, 6, func(s *screen) { s.state.sample.Workloads = nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := demoScreen(tt.width, tt.height)
			if tt.change != nil {
				tt.change(&s)
			}
			golden(t, strings.ReplaceAll(tt.name, " ", "-"), s.render())
		})
	}
}

// TestColoursAreOnlyColours: with colours taken out, the text is the same.
func TestColoursAreOnlyColours(t *testing.T) {
	s := demoScreen(120, 14)
	plain := s.render()
	s.theme = themeWith(termenv.ANSI)
	coloured := s.render()
	if coloured == plain {
		t.Fatal("no colours were used")
	}
	if got := ansi.Strip(coloured); got != plain {
		t.Errorf("got:\n%s\nwant:\n%s", got, plain)
	}
}

// TestRenderFitsAnyScreen: whatever the size and the content, no line is longer
// than the screen is wide, and there are no more lines than it is high.
func TestRenderFitsAnyScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := demoScreen(rapid.IntRange(1, 200).Draw(t, "width"), rapid.IntRange(1, 40).Draw(t, "height"))
		s.state.sample.Workloads = append(s.state.sample.Workloads, manyWorkloads("eth0", rapid.IntRange(0, 50).Draw(t, "n"))...)
		s.state.sample.Workloads[1].Name = rapid.String().Draw(t, "name")
		s.state.sample.Workloads[4].Note = rapid.String().Draw(t, "note")
		s.state.sample.Links[0].Error = rapid.SampledFrom([]string{"", "no such network device"}).Draw(t, "error")
		s.offset = rapid.IntRange(0, 60).Draw(t, "offset")
		s.explaining = rapid.SampledFrom([]string{"", strings.Repeat("why oh why ", 40)}).Draw(t, "pane")
		lines := strings.Split(s.render(), "\n")
		if len(lines) > s.height {
			t.Errorf("%d lines on a screen of %d", len(lines), s.height)
		}
		for _, line := range lines {
			if w := lipgloss.Width(line); w > s.width {
				t.Errorf("%d wide on a screen of %d: %q", w, s.width, line)
			}
		}
	})
}

func TestSpark(t *testing.T) {
	steady := make([]float64, 60)
	for i := range steady {
		steady[i] = 50
	}
	rising := []float64{0, 10, 20, 30, 40, 50, 60, 70, 80}
	for _, tt := range []struct {
		name    string
		history []float64
		width   int
		ceiling float64
		want    string
	}{
		{"nothing known", nil, 6, 100, "      "},
		{"steady half", steady, 6, 100, "▄▄▄▄▄▄"},
		{"one a second, now at the right", rising, 60, 80, strings.Repeat(" ", 52) + "▁▂▃▄▅▆▇█"},
		{"mean of ten seconds", rising, 6, 80, "     ▄"},
		{"little is still something", []float64{1}, 60, 1e9, strings.Repeat(" ", 59) + "▁"},
		{"no ceiling", []float64{0}, 2, 0, "  "},
		{"no width", steady, 0, 100, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := spark(tt.history, tt.width, tt.ceiling); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestUnits(t *testing.T) {
	for _, tt := range []struct {
		capacity uint64
		bps      float64
		want     string
	}{
		{100e6, 49.96e6, "50.0 Mbit/s"},
		{1e9, 1e9, "1000.0 Mbit/s"},
		{25e9, 1.234e9, "1.234 Gbit/s"},
		{2e6, 1234567, "1235 kbit/s"},
	} {
		u := unitFor(tt.capacity)
		if got := u.text(tt.bps) + " " + u.name; got != tt.want {
			t.Errorf("%v on %d: %s, want %s", tt.bps, tt.capacity, got, tt.want)
		}
	}
}
