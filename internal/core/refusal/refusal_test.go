// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestKinds: each kind has one row, after the kind that it is a case of.
func TestKinds(t *testing.T) {
	seen := map[Kind]bool{"": true}
	for _, r := range Kinds {
		if seen[r.Kind] || !seen[r.Case] {
			t.Errorf("%s, a case of %q: there already, or before it", r.Kind, r.Case)
		}
		seen[r.Kind] = true
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(string(r.Kind)) || r.Means == "" || strings.HasSuffix(r.Means, ".") {
			t.Errorf("%+v: not a name and a sentence without its end", r)
		}
	}
}

func TestIs(t *testing.T) {
	full := fmt.Errorf("web: %w", &Error{Kind: NoRoom, Msg: "full"})
	for _, tt := range []struct {
		err   error
		kinds []Kind
		want  bool
	}{
		{full, []Kind{NoRoom}, true},
		{full, []Kind{Conflict}, true},
		{full, []Kind{NotHeld, Invalid}, false},
		{full, []Kind{Invalid, Conflict}, true},
		{full, nil, false},
		{&Error{Kind: Conflict}, []Kind{NoRoom}, false},
		{&Error{Kind: Busy}, []Kind{Failed}, true},
		{&Error{Kind: "of the future"}, []Kind{"of the future"}, true},
		{&Error{Kind: "of the future"}, []Kind{Failed}, false},
		{errors.Join(errors.New("x"), full), []Kind{NoRoom}, true},
		{errors.New("full"), []Kind{NoRoom}, false},
		{nil, []Kind{NoRoom}, false},
	} {
		if got := Is(tt.err, tt.kinds...); got != tt.want {
			t.Errorf("%v is one of %v: %v, want %v", tt.err, tt.kinds, got, tt.want)
		}
	}
	if KindOf(full) != NoRoom || KindOf(nil) != "" || KindOf(errors.New("full")) != "" {
		t.Error("KindOf")
	}
}

func TestIn(t *testing.T) {
	table := map[Kind]int{Conflict: 5, NotHeld: 7, Failed: 1}
	for k, want := range map[Kind]int{Conflict: 5, NoRoom: 5, NotHeld: 7, Timeout: 1} {
		if got, ok := In(table, k); !ok || got != want {
			t.Errorf("%s: %d, %v; want %d", k, got, ok, want)
		}
	}
	if _, ok := In(table, Denied); ok {
		t.Error("denied has no row, and is no case of a kind that has one")
	}
	if _, ok := In(table, "of the future"); ok {
		t.Error("a kind that is not known has no row")
	}
}

// TestWith: a further remedy leaves the refusal itself as it is, which others may hold.
func TestWith(t *testing.T) {
	e := &Error{Kind: NoRoom, Msg: "full"}
	more := e.With("wait").With("ask for less")
	if more.Remedy != "wait; ask for less" || e.Remedy != "" || more.Kind != NoRoom {
		t.Errorf("%+v of %+v", more, e)
	}
}

func TestRefused(t *testing.T) {
	for k, want := range map[Kind]bool{Invalid: true, NoRoom: true, TooMany: true, Denied: true, Failed: false, Busy: false, Timeout: false} {
		if e := (&Error{Kind: k}); e.Refused() != want {
			t.Errorf("%s: refused %v, want %v", k, !want, want)
		}
	}
}
