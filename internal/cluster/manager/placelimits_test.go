// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/manager/moves"
	"weir/internal/cluster/manager/planning"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// request asks for 50 Mbit/s for a container of node a, whose link is full.
func (b *bed) request(n int) (wire.PlaceAnswer, error) {
	return b.seek(wire.PlaceRequest{ID: fmt.Sprint("p-", n), Node: "a", Container: fmt.Sprint("c", n), MinBps: 1e6, Change: wire.ChangeJSON(`{"min":"1mbit"}`)}, b.now)
}

func placeBed(t *testing.T) *bed {
	t.Helper()
	b := newBed(t, "a", "b")
	b.full["a"] = 100e6
	for i := range 100 {
		b.has["a"] = append(b.has["a"], fmt.Sprint("c", i))
	}
	b.pass(0)
	return b
}

func refusedPlace(t *testing.T, err error, kind refusal.Kind, words string) {
	t.Helper()
	var refused *refusal.Error
	if !errors.As(err, &refused) || refused.Kind != kind || !strings.Contains(err.Error(), words) {
		t.Errorf("%v, want kind %s and %q", err, kind, words)
	}
}

// TestPlacesObeyQuietHours: what a node asks for moves nothing in quiet hours, and what
// waits when they begin is called off. An operator's own move is made.
func TestPlacesObeyQuietHours(t *testing.T) {
	b := placeBed(t)
	first, err := b.request(0)
	if err != nil || first.To != "b" {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := b.request(1)
	if err != nil {
		t.Fatal(err)
	}
	third, err := b.request(2)
	if err != nil {
		t.Fatal(err)
	}
	b.state(b.moves[second.Move], wire.MoveOrdered)
	b.state(b.moves[third.Move], wire.MoveWaiting) // two at once
	b.opts.Automatic.Quiet = []planning.Window{{}} // all day
	b.report(b.moves[first.Move], "confirm", wire.MoveDone)
	b.state(b.moves[third.Move], wire.MoveCancelled)
	if !strings.Contains(b.moves[third.Move].Error, "quiet hours") {
		t.Errorf("%q", b.moves[third.Move].Error)
	}
	_, err = b.request(3)
	refusedPlace(t, err, refusal.Conflict, "quiet hours")
	if !strings.Contains(err.Error(), "weir migrate a/c3 --to b") {
		t.Errorf("%v", err)
	}
	b.full["a"] = 0 // there is room where it is: nothing has to move
	b.pass(0)
	if answer, err := b.request(4); err != nil || answer.To != "a" {
		t.Errorf("%+v, %v", answer, err)
	}
	b.state(b.order("mail", "a", "b"), wire.MoveOrdered)
}

// TestPlacesObeyMovesPerHour: of what nodes ask for, no more than the moves per hour.
func TestPlacesObeyMovesPerHour(t *testing.T) {
	b := placeBed(t)
	b.opts.Automatic.PerHour = 3
	for i := range 3 {
		answer, err := b.request(i)
		if err != nil {
			t.Fatal(err)
		}
		b.pass(5 * time.Second)
		b.report(b.moves[answer.Move], "confirm", wire.MoveDone)
	}
	_, err := b.request(3)
	refusedPlace(t, err, refusal.Conflict, "3 moves within the last hour, 3 are allowed")
	b.pass(time.Hour)
	if _, err := b.request(3); err != nil {
		t.Error(err)
	}
}

// TestPlacesOfANode: a node has a rate at which it may ask, and a number of requests that
// are dealt with at a time.
func TestPlacesOfANode(t *testing.T) {
	b := placeBed(t)
	for i := range placesOpen {
		if _, err := b.request(i); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.request(placesOpen)
	refusedPlace(t, err, refusal.TooMany, "being dealt with")
	for range placeBurst {
		_, err = b.request(placesOpen)
	}
	refusedPlace(t, err, refusal.TooMany, "one every 4 s")
	if len(b.places) != placesOpen {
		t.Errorf("%d places", len(b.places))
	}
	for i := range keepPlaces + keepPlaces/5 {
		b.places[fmt.Sprint("old-", i)] = &moves.RefusedMin{PlaceRequest: wire.PlaceRequest{ID: fmt.Sprint("old-", i)}, State: wire.PlaceDone, Ended: b.now.Add(time.Duration(i))}
	}
	b.pass(0)
	if len(b.places) != keepPlaces+placesOpen {
		t.Errorf("%d places are kept", len(b.places))
	}
}

// TestPlacesAreConsistent: the change to apply guarantees as much as the place was asked
// for, and not more; a request that says two things is refused in one line.
func TestPlacesAreConsistent(t *testing.T) {
	b := placeBed(t)
	for i, test := range []struct {
		min    uint64
		change string
		words  string // of the refusal, "" = none
	}{
		{1e6, `{"min":"1mbit"}`, ""},
		{1e6, `{"min":"1mbit","max":"50%","weight":3}`, ""},
		{2e6, `{"min":"1mbit","reserve":"2mbit"}`, ""},
		{1e6, `{}`, ""}, // its label asks for it
		{1e6, `{"min":"90mbit"}`, `change.min: is 90 Mbit/s, and a place is sought for 1 Mbit/s (min_bps)`},
		{1e6, `{"min":"1mbit","reserve":"90mbit"}`, `change.reserve: is 90 Mbit/s`},
		{90e6, `{"min":"1mbit"}`, `min_bps: is more than the change asks for, 1 Mbit/s`},
		{20e6, `{"min":"20%"}`, `change.min: is a part of a link`},
		{1e6, `{"min":"fast"}`, `change.min: "fast": does not begin with a number`},
		{1e6, `{"mni":"1mbit"}`, `change.mni: "1mbit": a policy has no such field`},
		{1e6, `[]`, `change: cannot be read`},
		{0, `{}`, `min_bps: is nothing to find a place for`},
		{0, `{"min":"90mbit"}`, `change.min: is 90 Mbit/s`},
	} {
		_, err := b.seek(wire.PlaceRequest{ID: fmt.Sprint("p-", i), Node: "a", Container: fmt.Sprint("c", i), MinBps: test.min, Change: wire.ChangeJSON(test.change)}, b.now)
		if test.words == "" {
			if err != nil {
				t.Errorf("%d %s: %v", test.min, test.change, err)
			}
			continue
		}
		refusedPlace(t, err, refusal.Invalid, test.words)
		if err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "; ")) {
			t.Errorf("no line with a remedy: %q", err)
		}
	}
}
