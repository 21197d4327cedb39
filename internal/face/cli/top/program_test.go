// SPDX-License-Identifier: Apache-2.0

package top

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"
	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/api/apitest"
)

// player drives a model as bubbletea would, one message at a time.
type player struct {
	model model
	quit  bool
}

func newPlayer(t *testing.T, width, height int) *player {
	explain := func(_ context.Context, name string, group bool) (string, error) {
		if group {
			name = "group " + name
		}
		if name == "late" {
			return "", errors.New("no such luck")
		}
		return "because of " + name, nil
	}
	p := &player{model: newModel(t.Context(), explain, nil, themeWith(termenv.Ascii))}
	p.model.screen.location = time.UTC
	p.send(tea.WindowSizeMsg{Width: width, Height: height})
	return p
}

// send delivers a message and the explanation that it asks for, if any.
func (p *player) send(msg tea.Msg) {
	next, cmd := p.model.Update(msg)
	p.model = next.(model)
	if cmd == nil {
		return
	}
	if _, ok := msg.(tea.KeyMsg); !ok {
		return // samples wait for the next, which no test has
	}
	switch msg := cmd().(type) {
	case tea.QuitMsg:
		p.quit = true
	case explainedMsg:
		p.send(msg)
	}
}

func (p *player) press(keys ...string) {
	for _, k := range keys {
		switch k {
		case "enter":
			p.send(tea.KeyMsg{Type: tea.KeyEnter})
		case "esc":
			p.send(tea.KeyMsg{Type: tea.KeyEsc})
		case "up":
			p.send(tea.KeyMsg{Type: tea.KeyUp})
		case "down":
			p.send(tea.KeyMsg{Type: tea.KeyDown})
		case "pgdown":
			p.send(tea.KeyMsg{Type: tea.KeyPgDown})
		case "end":
			p.send(tea.KeyMsg{Type: tea.KeyEnd})
		case "home":
			p.send(tea.KeyMsg{Type: tea.KeyHome})
		default:
			p.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(k)})
		}
	}
}

func (p *player) see(t *testing.T, wanted ...string) {
	t.Helper()
	view := p.model.View()
	for _, w := range wanted {
		if !strings.Contains(view, w) {
			t.Errorf("%q is not on the screen:\n%s", w, view)
		}
	}
}

func (p *player) miss(t *testing.T, unwanted string) {
	t.Helper()
	if view := p.model.View(); strings.Contains(view, unwanted) {
		t.Errorf("%q is on the screen:\n%s", unwanted, view)
	}
}

func sampleAt(second int, ws ...api.Workload) sampleMsg {
	return sampleMsg{api.Sample{
		At:        apitest.Start.Add(time.Duration(second) * time.Second),
		Links:     []api.LinkStatus{link("eth0", 100e6)},
		Workloads: ws,
	}}
}

func TestKeys(t *testing.T) {
	p := newPlayer(t, 100, 16)
	p.see(t, "waiting for the first sample")
	p.press("down", "enter") // nothing to select yet
	p.send(sampleAt(0, apitest.Demo()...))
	p.see(t, "12:00:00", "> web ")
	p.press("down")
	p.see(t, "> batch")
	p.press("up", "up", "up")
	p.see(t, "> web ")
	p.press("end")
	p.see(t, "> host")
	p.press("home", "enter")
	p.see(t, "because of web", "esc close")
	p.press("down") // the pane follows the selection
	p.see(t, "because of batch")
	p.press("esc")
	p.miss(t, "because")
	p.press("e")
	p.see(t, "because of batch")
	p.press("e")
	p.miss(t, "because")
	p.press("s")
	p.see(t, "s sort (name)", "> batch")
	for range len(orders) - 1 {
		p.press("s")
	}
	p.see(t, "s sort (rate)")
	p.press("q")
	if !p.quit {
		t.Error("q did not quit")
	}
}

func TestPauseKeepsThePicture(t *testing.T) {
	p := newPlayer(t, 100, 16)
	p.send(sampleAt(0, apitest.Workload("web", 1, 0, 0, 10)))
	p.press("p")
	p.send(sampleAt(1, apitest.Workload("web", 1, 0, 0, 77)))
	p.see(t, "paused", "12:00:00", "10.0")
	p.miss(t, "77.0")
	p.press("p")
	p.see(t, "12:00:01", "77.0")
	p.miss(t, "paused")
	id := rowID{"eth0", "docker:web"}
	if got, want := p.model.live.history[id], []float64{10e6, 77e6}; !slices.Equal(got, want) {
		t.Errorf("history %v, want %v: it goes on while the screen is paused", got, want)
	}
}

func TestLostAgentComesBack(t *testing.T) {
	p := newPlayer(t, 100, 16)
	p.send(sampleAt(0, apitest.Demo()...))
	p.send(lostMsg{api.ErrStreamEnded})
	p.see(t, "the agent is gone", "> web")
	p.send(sampleAt(5, apitest.Demo()...))
	p.miss(t, "the agent is gone")
	h := p.model.live.history[rowID{"eth0", "docker:web"}]
	if len(h) != 6 || !math.IsNaN(h[1]) || !math.IsNaN(h[4]) || h[5] != 50e6 {
		t.Errorf("history %v: the four seconds without samples are to be unknown", h)
	}
}

func TestFailedExplanationIsShown(t *testing.T) {
	p := newPlayer(t, 100, 16)
	p.send(sampleAt(0, apitest.Workload("late", 1, 0, 0, 10)))
	p.press("enter")
	p.see(t, "late: no such luck")
}

func TestScrolling(t *testing.T) {
	p := newPlayer(t, 80, 10) // title, link, columns, six rows, footer
	p.send(sampleAt(0, manyWorkloads("eth0", 100)...))
	p.see(t, "> w000", "w005")
	p.miss(t, "w006")
	for range 6 {
		p.press("down")
	}
	p.see(t, "> w006", "w001")
	p.miss(t, "w000")
	p.press("pgdown")
	p.see(t, "> w011")
	p.press("end")
	p.see(t, "> w099", "w094", "WORKLOAD")
	p.press("home")
	p.see(t, "> w000")
}

// TestManyWorkloads: a full host stays quick enough to work with.
func TestManyWorkloads(t *testing.T) {
	p := newPlayer(t, 120, 50)
	began := cpuTime(t)
	p.send(sampleAt(0, manyWorkloads("eth0", 4096)...))
	p.press("end")
	p.see(t, "> w999") // the last by name
	p.press("home")
	p.see(t, "> w000")
	if took := cpuTime(t) - began; took > 5*time.Second {
		t.Errorf("a sample and two jumps over 4,096 workloads took %v of CPU time", took)
	}
}

// cpuTime returns the CPU time that this process has used; it does not grow with the time
// of other processes.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestSelectionFollowsItsWorkload(t *testing.T) {
	p := newPlayer(t, 100, 16)
	web, batch := apitest.Workload("web", 1, 0, 0, 50), apitest.Workload("batch", 1, 0, 0, 30)
	p.send(sampleAt(0, web, batch))
	p.see(t, "> web")
	p.send(sampleAt(1, apitest.Workload("web", 1, 0, 0, 10), batch))
	p.see(t, "> web") // now second in the list
	p.send(sampleAt(2, batch))
	p.see(t, "> batch")
	p.send(sampleAt(3))
	p.miss(t, ">")
	if len(p.model.live.history) != 0 {
		t.Errorf("history of workloads that are gone is kept: %v", p.model.live.history)
	}
}

func TestHistoryIsAMinute(t *testing.T) {
	s := &state{}
	for i := range 200 {
		s.add(sampleAt(i, apitest.Workload("web", 1, 0, 0, uint64(i))).sample)
	}
	h := s.history[rowID{"eth0", "docker:web"}]
	if len(h) != 60 || h[59] != 199e6 || h[0] != 140e6 {
		t.Errorf("%d seconds from %v to %v", len(h), h[0], h[len(h)-1])
	}
}

// TestLinesOverARestart: the second stream goes on where the first ended.
func TestLinesOverARestart(t *testing.T) {
	calls := 0
	stream := func(_ context.Context, fn func(api.Sample) error) error {
		calls++
		if calls == 2 {
			return api.ErrNoAgent // not back yet
		}
		if err := fn(sampleAt(calls, apitest.Workload("web", 1, 0, 0, 1)).sample); err != nil {
			return err
		}
		return api.ErrStreamEnded
	}
	var out, complaints bytes.Buffer
	encode := func(s api.Sample) ([]byte, error) { return []byte(Plain(s, time.UTC)), nil }
	if err := Lines(t.Context(), stream, 2, encode, &out, &complaints); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "12:00:01") || !strings.Contains(got, "12:00:03") {
		t.Errorf("lines:\n%s", got)
	}
	if got := strings.Count(complaints.String(), "waiting for it to come back"); got != 1 {
		t.Errorf("told %d times that the agent is gone, want once:\n%s", got, complaints.String())
	}
}

func TestLinesEndTheirOwnWay(t *testing.T) {
	broken := errors.New("broken pipe")
	forever := func(ctx context.Context, fn func(api.Sample) error) error {
		for {
			if err := fn(api.Sample{At: apitest.Start}); err != nil {
				return err
			}
		}
	}
	none := func(context.Context, func(api.Sample) error) error { return api.ErrNoAgent }
	encode := func(api.Sample) ([]byte, error) { return []byte("x\n"), nil }
	failing := func(api.Sample) ([]byte, error) { return nil, broken }
	for _, tt := range []struct {
		name   string
		stream Stream
		encode func(api.Sample) ([]byte, error)
		count  int
		want   error
	}{
		{"enough", forever, encode, 3, nil},
		{"no agent at first", none, encode, 3, api.ErrNoAgent},
		{"output fails", forever, failing, 0, broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, complaints bytes.Buffer
			if err := Lines(t.Context(), tt.stream, tt.count, tt.encode, &out, &complaints); !errors.Is(err, tt.want) {
				t.Errorf("Lines: %v, want %v", err, tt.want)
			}
		})
	}
}
