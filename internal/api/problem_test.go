// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"testing"

	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/policy/admission"
	"weir/internal/core/refusal"
)

// TestProblemKeepsTheRefusal: what an agent returns is what its client gets, whatever kind
// it is of.
func TestProblemKeepsTheRefusal(t *testing.T) {
	for _, r := range refusal.Kinds {
		want := refusal.Error{Kind: r.Kind, Object: "link eth0", Field: "min", Value: "90mbit", Msg: "too much", Remedy: "ask for less",
			Numbers: &refusal.Numbers{AskedBps: 90e6, PayloadBps: 80e6, ReservedBps: 20e6, LimitBps: 95e6, FreeBps: 75e6}}
		text, err := json.Marshal(ProblemOf(&want))
		if err != nil {
			t.Fatal(err)
		}
		var p ProblemDetails
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
		if got := p.AsError(http.StatusTeapot); !reflect.DeepEqual(*got, want) {
			t.Errorf("got %+v, want %+v", *got, want)
		}
		if p.Title != http.StatusText(p.Status) || p.Title == "" || p.Error() != want.Error() || p.ContentType("application/json") != "application/problem+json" {
			t.Errorf("problem %+v", p)
		}
	}
}

// TestStatusOfKind: the statuses of kinds are part of the interface.
func TestStatusOfKind(t *testing.T) {
	for k, want := range map[refusal.Kind]int{refusal.Invalid: 422, refusal.Unknown: 404, refusal.Conflict: 409, refusal.NoRoom: 409, refusal.NotHeld: 409,
		refusal.Denied: 403, refusal.TooMany: 429, refusal.Failed: 500, refusal.Busy: 503, refusal.Timeout: 504, "of the future": 500} {
		if got := StatusOf(k); got != want {
			t.Errorf("%s: status %d, want %d", k, got, want)
		}
	}
}

// TestKindOfStatus: an answer of a server that names no kind, or one that this version does
// not know, counts by its status.
func TestKindOfStatus(t *testing.T) {
	for status, want := range map[int]refusal.Kind{400: refusal.Invalid, 403: refusal.Denied, 404: refusal.Unknown, 405: refusal.Invalid, 409: refusal.Conflict,
		413: refusal.Invalid, 422: refusal.Invalid, 429: refusal.TooMany, 500: refusal.Failed, 502: refusal.Failed, 503: refusal.Busy, 504: refusal.Timeout} {
		for _, p := range []ProblemDetails{{Status: status}, {Status: status, Kind: "of the future"}, {}} {
			if got := p.AsError(status).Kind; got != want {
				t.Errorf("status %d, problem %+v: kind %s, want %s", status, p, got, want)
			}
		}
	}
}

// TestMistake: a mistake in a policy keeps its parts, whatever wraps it.
func TestMistake(t *testing.T) {
	_, err := policy.ParseRate("20mbps")
	got := Mistake(fmt.Errorf("weir.yaml: %w", invalid.InField("min", err)))
	if got.Kind != refusal.Invalid || got.Field != "min" || got.Value != "20mbps" || got.Msg == "" || got.Remedy == "" {
		t.Errorf("%+v", got)
	}
	if got := Mistake(errors.New("no such file")); *got != (refusal.Error{Kind: refusal.Invalid, Msg: "no such file"}) {
		t.Errorf("%+v", got)
	}
}

// TestNoRoom: a refusal for want of room names who has none and has the numbers of its
// sentence.
func TestNoRoom(t *testing.T) {
	for _, tt := range []struct {
		name   string
		of     admission.Bound
		object string
	}{
		{"link", admission.Bound{Capacity: 100e6, Reservable: 0.9}, "link eth0"},
		{"group", admission.Bound{Capacity: 90e6, Group: "tenant", Bound: "max"}, "group tenant"},
	} {
		err := tt.of.Admit(policy.Floor{Name: "web", Min: 40e6}, []policy.Floor{{Name: "cam", Min: 60e6}})
		r, ok := errors.AsType[*admission.Refused](err)
		if !ok {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := NoRoom(r, "eth0")
		want := refusal.Numbers{AskedBps: 40e6, ReservedBps: 60e6, LimitBps: 90e6, FreeBps: 30e6}
		if got.Kind != refusal.NoRoom || got.Object != tt.object || got.Field != "min" || *got.Numbers != want {
			t.Errorf("%s: %+v, numbers %+v", tt.name, got, got.Numbers)
		}
	}
}
