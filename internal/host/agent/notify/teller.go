// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"log/slog"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/event"
	"weir/internal/host/agent/memory"
)

// keepEvery is how often events.json follows the webhook and the command while events wait for
// them, if no event does it. It follows at the next look once none does.
const keepEvery = 10 * time.Second

// Teller says what operators have to know: in the log, to the webhook and to the command, and
// to those who ask. It belongs to one goroutine.
type Teller struct {
	book    *event.Book
	sinks   *Sinks
	file    *memory.EventsFile
	kept    time.Time         // when file was written
	reached map[string]uint64 // as file has it
	log     *slog.Logger
}

// NewTeller returns one that goes on where the agent before stopped, which kept that in a folder.
func NewTeller(folder string, log *slog.Logger) *Teller {
	file := memory.NewEventsFile(folder)
	before := file.Load(log)
	return &Teller{book: event.NewBook(before.State), sinks: New(log, before.Reached, before.Recent), file: file, log: log}
}

// Follow takes a configuration.
func (t *Teller) Follow(c config.Tell) { t.sinks.Follow(c) }

// Look returns what begins and ends at a moment, after it has written it down and handed it over.
func (t *Teller) Look(s event.Sight, bounds event.Bounds) []event.Event {
	events := t.book.Take(s, bounds)
	for _, e := range events {
		write(t.log, e)
	}
	t.sinks.Offer(events)
	if len(events) > 0 || s.At.Sub(t.kept) >= keepEvery || t.sinks.emptied(t.reached) {
		t.keep(s.At)
	}
	return events
}

// keep writes what the next agent has to know.
func (t *Teller) keep(now time.Time) {
	t.reached = t.sinks.Reached()
	if err := t.file.Save(memory.Events{State: t.book.State, Reached: t.reached}); err != nil {
		t.log.Error("a restarted agent may tell events twice", "err", err)
	}
	t.kept = now
}

// Close ends webhook and command.
func (t *Teller) Close() {
	t.sinks.Close()
	t.keep(time.Now())
}

// write logs an event.
func write(log *slog.Logger, e event.Event) {
	level := slog.LevelInfo
	if e.State == event.Begin {
		level = map[string]slog.Level{event.Warning: slog.LevelWarn, event.Error: slog.LevelError}[e.Severity]
	}
	log = log.With("event", e.Kind, "state", e.State, "id", e.ID, e.Subject.Type, e.Subject.Name)
	if e.Remedy != "" {
		log = log.With("remedy", e.Remedy)
	}
	log.Log(context.Background(), level, e.Text)
}

// Events answers a query.
func (t *Teller) Events(q api.EventQuery) api.Events {
	return api.Events{Open: t.book.Holding(), Recent: t.book.Since(q.Since)}
}

// Sinks returns how the webhook and the command stand, for a look.
func (t *Teller) Sinks() (list []event.SinkSight) {
	for _, s := range t.sinks.Status() {
		list = append(list, event.SinkSight{Name: s.Name, To: s.To, Error: s.Error})
	}
	return list
}

// Status counts events.
func (t *Teller) Status() api.EventStatus {
	s := api.EventStatus{Begun: map[string]uint64{}, Open: map[string]uint64{}, Sinks: t.sinks.Status()}
	for _, kind := range event.Names() {
		s.Begun[kind], s.Open[kind] = t.book.Begun[kind], 0
	}
	for _, e := range t.book.Holding() {
		s.Open[e.Kind]++
	}
	return s
}
