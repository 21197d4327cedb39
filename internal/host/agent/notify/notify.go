// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"

	"weir/internal/api"
	"weir/internal/base/safepath"
	"weir/internal/base/tlsfile"
	"weir/internal/config"
	"weir/internal/core/event"
)

// The names of the two ways.
const (
	toWebhook = "webhook"
	toCommand = "command"
)

// Sinks are the ways by which events leave this host. It belongs to one goroutine.
type Sinks struct {
	log     *slog.Logger
	tell    config.Tell
	ways    map[string]*sink
	reached map[string]uint64 // of ways that the agent before had, until they are there
	recent  []event.Event     // what the agent before has told
	last    uint64            // id of the last event
}

// New returns sinks that go on where an agent before stopped: reached has, by name, the last
// event of each way that it had, recent its events.
func New(log *slog.Logger, reached map[string]uint64, recent []event.Event) *Sinks {
	s := &Sinks{log: log, ways: map[string]*sink{}, reached: maps.Clone(reached), recent: recent}
	if len(recent) > 0 {
		s.last = recent[len(recent)-1].ID
	}
	return s
}

// Follow takes a configuration: a way that it does not name any more ends, one that it changes
// goes on with the events that wait.
func (s *Sinks) Follow(t config.Tell) {
	before := s.tell
	s.tell = t
	s.follow(toWebhook, t.Webhook.URL != "", !reflect.DeepEqual(before.Webhook, t.Webhook), func() way { return newWebhook(t.Webhook, hostname()) })
	s.follow(toCommand, len(t.Command.Run) > 0, !reflect.DeepEqual(before.Command, t.Command), func() way { return command{t.Command, hostname()} })
	s.recent, s.reached = nil, nil
}

func (s *Sinks) follow(name string, wanted, changed bool, open func() way) {
	old := s.ways[name]
	switch {
	case !wanted:
		if old != nil {
			old.cancel()
			delete(s.ways, name)
		}
	case old == nil:
		missed, reached := s.missed(name)
		s.ways[name] = start(s.log.With("to", name), open(), &sink{waiting: missed, reached: reached})
	case changed:
		old.cancel()
		s.ways[name] = start(s.log.With("to", name), open(), old)
	}
}

// missed returns what an agent before has told and not delivered by a way, and how far it came;
// nothing if it did not have this way.
func (s *Sinks) missed(name string) (missed []event.Event, reached uint64) {
	reached, had := s.reached[name]
	if !had {
		return nil, s.last
	}
	return slices.DeleteFunc(slices.Clone(s.recent), func(e event.Event) bool { return e.ID <= reached || !s.tell.Wants(e.Kind) }), reached
}

// Offer hands over new events. It does not wait.
func (s *Sinks) Offer(events []event.Event) {
	for _, e := range events {
		s.last = e.ID
		for _, way := range s.ways {
			if s.tell.Wants(e.Kind) {
				way.add(e)
			} else {
				way.skip(e.ID)
			}
		}
	}
}

// Reached returns the last event that each way has delivered or given up, with all before it.
func (s *Sinks) Reached() map[string]uint64 {
	reached := map[string]uint64{}
	for name, way := range s.ways {
		reached[name] = way.last()
	}
	return reached
}

// emptied reports whether a way has got rid of all that waited for it, and has come further than
// before says.
func (s *Sinks) emptied(before map[string]uint64) bool {
	for name, way := range s.ways {
		if way.view().Waiting == 0 && way.last() != before[name] {
			return true
		}
	}
	return false
}

// Status returns the state of each way.
func (s *Sinks) Status() []api.EventSink {
	list := []api.EventSink{}
	for _, name := range []string{toWebhook, toCommand} {
		if way := s.ways[name]; way != nil {
			view := way.view()
			view.Name = name
			list = append(list, view)
		}
	}
	return list
}

// Close ends all ways. What waits is for the next agent.
func (s *Sinks) Close() {
	for _, way := range s.ways {
		way.cancel()
	}
	for _, way := range s.ways {
		<-way.done
	}
}

// Foresee returns what on this host would keep events from being delivered, a line each: a
// secret, authorities or a program that are not there or not as they have to be. What the caller
// may not read is not judged, and what other users may change is Refused's of the configuration.
func Foresee(t config.Tell) []string {
	var list []string
	note := func(field string, err error, then string) {
		var refused *safepath.Error
		if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.As(err, &refused) {
			list = append(list, fmt.Sprintf("%s: %v; events %s until that is right", field, err, then))
		}
	}
	if file := t.Webhook.SecretFile; file != "" {
		_, err := readSecret(file)
		note("tell.webhook.secret_file", err, "wait")
	}
	note("tell.webhook.ca", tlsfile.Files{CA: t.Webhook.CA}.Check(), "wait")
	if len(t.Command.Run) > 0 {
		file, err := openProgram(t.Command.Run[0])
		if err == nil {
			file.Close()
		}
		note("tell.command.run", err, "are given up")
	}
	return list
}

// message is an event as it leaves the host.
type message struct {
	event.Event
	Host string `json:"host"`
}

// hostname returns the host's name, "" if it has none.
func hostname() string {
	name, _ := os.Hostname() // fails only where /proc is missing
	return name
}
