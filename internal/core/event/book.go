// SPDX-License-Identifier: Apache-2.0

package event

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Kept is how many past events a Book remembers.
const Kept = 500

// State is what the next agent has to know: what was told and is not over, so that it is not
// told again, and the events of late.
type State struct {
	Last   uint64  `json:"last"`   // id of the last event
	Open   []Event `json:"open"`   // begins without an end, by id
	Recent []Event `json:"recent"` // the newest last
}

// Book knows which conditions hold and which were told. It belongs to one goroutine.
type Book struct {
	State
	Begun   map[string]uint64 // begins since the Book was made, by kind
	since   map[key]time.Time // conditions that were not told yet: since when
	quiet   map[key]time.Time // conditions that were told: since when they are gone
	losses  losses
	current map[key]Event // State.Open
}

// NewBook returns a book that goes on where a State ended. Of kinds that it does not know,
// which another version of Weir has told, it remembers the events and not that they hold.
func NewBook(s State) *Book {
	b := &Book{State: s, Begun: map[string]uint64{}, since: map[key]time.Time{}, quiet: map[key]time.Time{}, losses: losses{}, current: map[key]Event{}}
	for _, e := range s.Open {
		if kindNamed(e.Kind) != nil {
			b.current[e.key()] = e
		}
	}
	b.list()
	return b
}

// Take looks at a moment and returns the events that follow, in the order of Kinds.
func (b *Book) Take(s Sight, bounds Bounds) []Event {
	b.losses.follow(s)
	var events []Event
	for i := range Kinds {
		events = append(events, b.judge(&Kinds[i], s, bounds)...)
	}
	if len(events) > 0 {
		b.Recent = append(b.Recent, events...)
		b.Recent = slices.Clone(b.Recent[max(0, len(b.Recent)-Kept):])
	}
	b.list()
	return events
}

// judge returns the events of one kind.
func (b *Book) judge(k *Kind, s Sight, bounds Bounds) (events []Event) {
	near := func(about Subject) bool { _, told := b.current[key{k.Name, about}]; return told }
	found := map[key]bool{}
	for _, f := range k.look(look{s, bounds, b.losses, near}) {
		e := Event{At: s.At.UTC(), Kind: k.Name, State: Begin, Severity: k.Severity, Subject: f.Subject, Text: f.Subject.called() + ": " + f.Text, Remedy: f.Remedy}
		key := e.key()
		found[key] = true
		if told, ok := b.current[key]; ok {
			delete(b.quiet, key)
			told.Text, told.Remedy = e.Text, e.Remedy // as it is now
			b.current[key] = told
			continue
		}
		if _, known := b.since[key]; !known {
			b.since[key] = s.At
		}
		if s.At.Sub(b.since[key]) < k.Wait {
			continue
		}
		e.Began = b.since[key].UTC()
		b.Last++
		e.ID = b.Last
		b.current[key] = e
		b.Begun[k.Name]++
		delete(b.since, key)
		events = append(events, e)
	}
	return append(events, b.over(k, s, found)...)
}

// over returns the ends of one kind, and forgets conditions that did not last.
func (b *Book) over(k *Kind, s Sight, found map[key]bool) (events []Event) {
	maps.DeleteFunc(b.since, func(key key, _ time.Time) bool { return key.kind == k.Name && !found[key] })
	var ended []Event
	for key := range b.current {
		if key.kind != k.Name || found[key] {
			continue
		}
		if _, gone := b.quiet[key]; !gone {
			b.quiet[key] = s.At
		}
		if s.At.Sub(b.quiet[key]) < k.Quiet {
			continue
		}
		ended = append(ended, b.current[key])
		delete(b.current, key)
		delete(b.quiet, key)
	}
	slices.SortFunc(ended, byID)
	for _, e := range ended {
		b.Last++
		e.ID, e.At, e.State, e.Text, e.Remedy = b.Last, s.At.UTC(), End, e.Subject.called()+" "+s.over(k, e.Subject), ""
		events = append(events, e)
	}
	return events
}

// called returns a subject for people: "web", "link eth0 ingress", "group tenant-b".
func (s Subject) called() string {
	switch {
	case s.Type == Link && s.Direction == "ingress":
		return "link " + s.Name + " ingress"
	case s.Type == Link, s.Type == Group, s.Type == Source:
		return s.Type + " " + s.Name
	case s.Type == Sink:
		return "the " + s.Name
	case s.Type == Clock:
		return "the clock"
	case s.Type == Manager:
		return "the manager at " + s.Name
	}
	return s.Name
}

// Holding returns what was told and holds: what is over and has not been so for long enough to be
// told is left out.
func (b *Book) Holding() []Event {
	return slices.DeleteFunc(b.told(), func(e Event) bool { _, gone := b.quiet[e.key()]; return gone })
}

// told returns what was told and is not over, in the order in which it was told.
func (b *Book) told() []Event { return slices.SortedFunc(maps.Values(b.current), byID) }

func byID(x, y Event) int { return cmp.Compare(x.ID, y.ID) }

func (b *Book) list() { b.Open = b.told() }

// Since returns the remembered events with an id above one.
func (b *Book) Since(id uint64) []Event {
	i := slices.IndexFunc(b.Recent, func(e Event) bool { return e.ID > id })
	if i < 0 {
		return nil
	}
	return slices.Clone(b.Recent[i:])
}
