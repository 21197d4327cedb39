// SPDX-License-Identifier: Apache-2.0

package unheard

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"weir/internal/host/discover/engine"
)

// A difference counts when the next list has it as well, and once.
func TestCompare(t *testing.T) {
	started, ended := Difference{"a", "has started"}, Difference{"b", "has ended, with process 7"}
	var l Lists
	for n, c := range []struct {
		differ []Difference
		next   time.Duration
		err    error
	}{
		{nil, Every, nil},
		{[]Difference{started}, again, nil},
		{nil, Every, nil}, // it was under way
		{[]Difference{started}, again, nil},
		{[]Difference{started, ended}, again, Error(started)},
		{[]Difference{started, ended}, Every, Error(ended)}, // one is excused
		{[]Difference{started, ended}, Every, nil},
		{[]Difference{ended}, Every, nil},
		{[]Difference{started, ended}, again, nil}, // it is another time
		{[]Difference{started}, Every, Error(started)},
	} {
		if next, err := l.Compare(c.differ); next != c.next || !errors.Is(err, c.err) {
			t.Errorf("list %d: %v, %v; want %v, %v", n+1, next, err, c.next, c.err)
		}
	}
}

// What starts, ends, or has another name or process differs; what the engine is being asked about
// does not.
func TestDiffer(t *testing.T) {
	runs := Known{Name: "web", Pid: 7, Runs: true, Lives: true}
	for name, c := range map[string]struct {
		listed string // its name in the list, "" = it is not there
		known  Known
		want   string
	}{
		"the same":             {"web", runs, "[]"},
		"unknown":              {"web", Known{}, "[{a has started}]"},
		"unknown and asked":    {"web", Known{Asked: true}, "[]"},
		"another name":         {"db", runs, "[{a is not called web any more, but db}]"},
		"another process":      {"web", Known{Name: "web", Pid: 7, Runs: true}, "[{a has another process than 7}]"},
		"gone":                 {"", runs, "[{a has ended, with process 7}]"},
		"gone and asked":       {"", Known{Name: "web", Runs: true, Asked: true}, "[]"},
		"neither runs nor was": {"", Known{Name: "web"}, "[]"},
	} {
		list := []engine.Container{{ID: "a", Name: c.listed, Running: true}}
		if c.listed == "" {
			list[0].Running = false // it waits for a restart
		}
		if got := fmt.Sprint(Differ(list, map[string]Known{"a": c.known})); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
