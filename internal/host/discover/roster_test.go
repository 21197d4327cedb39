// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"weir/internal/host/discover/engine"

	"pgregory.net/rapid"
)

// rosterModel is an engine whose events are delivered late and whose answers to
// questions may be older than events that were delivered before them.
type rosterModel struct {
	roster  *roster
	truth   map[string]engine.Container
	events  []engine.Event
	answers []answer // what was true when the engine answered
	asked   []answer // not answered yet
	pids    int
}

func (m *rosterModel) ask(q question, id string) {
	if q != nothing {
		m.asked = append(m.asked, answer{question: q, id: id})
	}
}

// serve lets the engine answer a question with the present state.
func (m *rosterModel) serve(i int) {
	a := m.asked[i]
	m.asked = slices.Delete(m.asked, i, i+1)
	info, ok := m.truth[a.id]
	if !ok {
		a.err = engine.ErrNoContainer
	}
	if a.info = info; a.question == summary {
		a.info.Pid = 0
	}
	m.answers = append(m.answers, a)
}

func (m *rosterModel) deliverAnswer(i int) {
	a := m.answers[i]
	m.answers = slices.Delete(m.answers, i, i+1)
	run := dockerRun{roster: m.roster}
	again, _ := run.take(a)
	m.ask(again, a.id)
}

func (m *rosterModel) deliverEvent() {
	e := m.events[0]
	m.events = m.events[1:]
	m.ask(m.roster.event(e, time.Unix(0, 0)), e.Container)
}

func (m *rosterModel) tell(id string, actions ...string) {
	for _, a := range actions {
		m.events = append(m.events, engine.Event{Container: id, Action: a})
	}
}

// step lets something happen to a container, or be heard of.
func (m *rosterModel) step(t *rapid.T) {
	id := fmt.Sprintf("id%d", rapid.IntRange(0, 2).Draw(t, "container"))
	c, exists := m.truth[id]
	switch rapid.SampledFrom([]string{"start", "start", "stop", "fail", "rename", "remove", "serve", "serve", "event", "event", "answer", "answer"}).Draw(t, "what") {
	case "start":
		if !c.Running {
			m.pids++
			m.truth[id] = engine.Container{ID: id, Name: "name-" + id, Running: true, Pid: m.pids}
			m.tell(id, "connect", "start")
		}
	case "stop":
		if c.Running {
			m.truth[id] = engine.Container{ID: id, Name: c.Name}
			m.tell(id, "die", "disconnect")
		}
	case "fail":
		if exists && !c.Running {
			m.tell(id, "connect", "disconnect")
		}
	case "rename":
		if exists {
			c.Name += "x"
			m.truth[id] = c
			m.tell(id, "rename")
		}
	case "remove":
		if exists && !c.Running {
			delete(m.truth, id)
			m.tell(id, "destroy")
		}
	case "serve":
		if len(m.asked) > 0 {
			m.serve(rapid.IntRange(0, len(m.asked)-1).Draw(t, "question"))
		}
	case "event":
		if len(m.events) > 0 {
			m.deliverEvent()
		}
	case "answer":
		if len(m.answers) > 0 {
			m.deliverAnswer(rapid.IntRange(0, len(m.answers)-1).Draw(t, "answer"))
		}
	}
}

// settle delivers all that is under way.
func (m *rosterModel) settle() {
	for len(m.events)+len(m.asked)+len(m.answers) > 0 {
		switch {
		case len(m.events) > 0:
			m.deliverEvent()
		case len(m.asked) > 0:
			m.serve(0)
		default:
			m.deliverAnswer(0)
		}
	}
}

// TestRosterEndsInTheTruth: whatever happened and in whatever order it was heard
// of, once everything was heard the roster has the running containers, with
// their names and processes, and nothing else.
func TestRosterEndsInTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &rosterModel{roster: newRoster(), truth: map[string]engine.Container{}}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			m.step(t)
		}
		m.settle()
		got, want := map[string]string{}, map[string]string{}
		for _, c := range m.roster.present() {
			got[c.ID] = fmt.Sprintf("%s pid %d", c.Name, c.Pid)
		}
		for id, c := range m.truth {
			if c.Running {
				want[id] = fmt.Sprintf("%s pid %d", c.Name, c.Pid)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		for id, c := range m.roster.records {
			if !m.truth[id].Running && c.announced.IsZero() {
				t.Errorf("%s is remembered without need", id)
			}
		}
	})
}

// TestRosterSummaryOfNothing: a summary that finds no container is no answer to the
// inspect that is under way. Taken for one, it left two inspects under way, and the
// first of their answers removed the container that the second had found (seed
// 6207712612494271051 of TestRosterEndsInTheTruth).
func TestRosterSummaryOfNothing(t *testing.T) {
	m := &rosterModel{roster: newRoster(), truth: map[string]engine.Container{}}
	start := func(pid int) {
		m.truth[idA] = engine.Container{ID: idA, Name: "web", Running: true, Pid: pid}
		m.tell(idA, "connect", "start")
	}
	start(1)
	delete(m.truth, idA)
	m.tell(idA, "die", "disconnect", "destroy")
	m.deliverEvent() // connect: a summary
	m.serve(0)
	m.deliverEvent() // start: an inspect
	m.serve(0)
	start(2)
	m.settle()
	if list := m.roster.present(); len(list) != 1 || list[0].Pid != 2 || list[0].Name != "web" {
		t.Errorf("present: %v, want web with process 2", list)
	}
}

func TestRosterExpected(t *testing.T) {
	now := time.Unix(1000, 0)
	r := newRoster()
	if q := r.event(engine.Event{Container: idA, Action: "connect"}, now); q != summary {
		t.Errorf("a new container is announced: question %d, want a summary, which does not wait", q)
	}
	if !r.expected(now)[idA] {
		t.Error("an announced container is not expected")
	}
	if r.expected(now.Add(announcement))[idA] {
		t.Error("a container is expected for ever")
	}
	r.summarized(engine.Container{ID: idA, Name: "web"})
	r.found(idA, 7)
	if r.expected(now)[idA] {
		t.Error("a container with a process is still expected")
	}
	if list := r.present(); len(list) != 1 || list[0].Pid != 7 {
		t.Errorf("present: %v, want the process found", list)
	}
	if q := r.event(engine.Event{Action: "connect"}, now); q != nothing || len(r.records) != 1 {
		t.Error("a network event without a container made a record")
	}
}
