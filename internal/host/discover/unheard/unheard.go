// SPDX-License-Identifier: Apache-2.0

// Package unheard finds out a stream of events that is open and says nothing: the engine has lost
// it, or a proxy before it has. The running containers are listed now and then. What differs from
// what the events have said, and still does in the next list, the stream has not told, and it is to
// begin anew.
//
// Example: a container starts without an event 3 s after a list. The list 17 s later has it, and so
// has the one after further 5 s: 22 s after its start Compare returns an Error that names it.
//
// A difference counts once: an engine that lists a container otherwise than it describes it has its
// stream begun anew once, not for ever. It lists when it is told to: it knows no clock.
package unheard

import (
	"context"
	"fmt"
	"time"

	"weir/internal/host/discover/engine"
)

// The times between two lists. Both, and the time that the engine takes to answer, are how long a
// change may stay unheard.
const (
	Every = 20 * time.Second
	again = 5 * time.Second // after a list that differs
)

// longest is how long an engine may take to list its containers; one that takes longer is away.
const longest = 10 * time.Second

// Known is what the events have said of a container.
type Known struct {
	Name  string
	Pid   int
	Runs  bool
	Asked bool // the engine is being asked about it, and its answer will tell
	Lives bool // its process is there
}

// Difference is what a list says otherwise than the events have said.
type Difference struct {
	container string // its id
	what      string // with the name or the process that is known
}

// Error says what a stream of events has not told.
type Error Difference

func (e Error) Error() string {
	return fmt.Sprintf("its stream of events has not said that container %s %s", e.container, e.what)
}

// Lists compares an engine's lists with what its events have said. The zero value has compared
// none.
type Lists struct {
	differed map[Difference]bool // in the last list
	excused  map[Difference]bool // an Error has named them, and they are there still
}

// Compare takes what differs in a list, and returns how soon to list again, or an Error with
// something that differs for the second time.
func (l *Lists) Compare(differ []Difference) (next time.Duration, unheard error) {
	now, excused := map[Difference]bool{}, map[Difference]bool{}
	next = Every
	for _, d := range differ {
		now[d] = true
		switch {
		case l.excused[d]:
			excused[d] = true
		case l.differed[d]:
			excused[d], unheard = true, Error(d)
		default:
			next = again
		}
	}
	l.differed, l.excused = now, excused
	return next, unheard
}

// Differ returns what a list of the running containers says otherwise than the events, which know
// these by their ids: what has started, ended or got another process or name.
func Differ(running []engine.Container, known map[string]Known) (all []Difference) {
	listed := map[string]bool{}
	for _, info := range running {
		if !info.Running {
			continue
		}
		listed[info.ID] = true
		switch k := known[info.ID]; {
		case k.Asked:
		case !k.Runs:
			all = append(all, Difference{info.ID, "has started"})
		case k.Name != info.Name:
			all = append(all, Difference{info.ID, fmt.Sprintf("is not called %s any more, but %s", k.Name, info.Name)})
		case !k.Lives:
			all = append(all, Difference{info.ID, fmt.Sprintf("has another process than %d", k.Pid)})
		}
	}
	for id, k := range known {
		if k.Runs && !k.Asked && !listed[id] {
			all = append(all, Difference{id, fmt.Sprintf("has ended, with process %d", k.Pid)})
		}
	}
	return all
}

// Listing is what an engine has listed.
type Listing struct {
	Running []engine.Container
	Err     error
}

// List asks an engine for its running containers and puts the answer on the channel, unless ctx
// ends.
func List(ctx context.Context, e engine.Engine, listed chan<- Listing) {
	limited, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	running, err := e.Running(limited)
	select {
	case listed <- Listing{running, err}:
	case <-ctx.Done():
	}
}
