// SPDX-License-Identifier: Apache-2.0

// Package refusal is the one type for a request that is not granted, from the agent, the
// manager and the nodes to the command line.
//
// A refusal has a Kind, by which programs decide, and beside it the facts for a person:
// the field, the value, the mistake and the remedy. A refusal for want
// of room has its numbers too. Example, of weir set pbx --min 90mbit:
//
//	&Error{
//		Kind:    NoRoom,
//		Object:  "link eth0",
//		Field:   "min",
//		Value:   "90mbit",
//		Msg:     "link eth0 has no room for it: asked 90 Mbit/s, reserved 20 Mbit/s of 95 Mbit/s, free 75 Mbit/s",
//		Remedy:  "ask for 75mbit or less, or lower the min of web (20 Mbit/s)",
//		Numbers: &Numbers{AskedBps: 90e6, ReservedBps: 20e6, LimitBps: 95e6, FreeBps: 75e6},
//	}
//
// Nothing decides by the text of Msg or Remedy. What a kind is outside of the program
// Nothing decides by the text of Msg or Remedy. What a kind is outside of the program
// stands in three tables, each where it belongs: its HTTP status in internal/api, its exit
// code in internal/face/cli/frame, its series of weir_refusals_total in internal/api/rest. A kind
// without a row of its own there has the row of the kind that it is a case of.
// The package does not know HTTP, flags or the wire. A mistake in a policy is a
// invalid.Error until internal/api makes a refusal of it.
package refusal

import "errors"

// Error is a request that is not granted.
type Error struct {
	Kind   Kind
	Object string // whose room or ability is missing: "link eth0", "group tenant-b"; "" if Field and Value say it
	Field  string // what the refusal is about, by its name in the API or in weir.yaml: "min", "manager.listen"
	Value  string // what was given
	Msg    string // the mistake
	Remedy string // what to do about it

	Numbers *Numbers // nil if the refusal has none
}

// Numbers are the amounts behind a refusal for want of room, in bits per second.
type Numbers struct {
	AskedBps    uint64 `json:"asked_bps" doc:"the requested rate, on the wire"`
	PayloadBps  uint64 `json:"payload_bps,omitempty" doc:"the reservation of payload that asked_bps is on the wire"`
	ReservedBps uint64 `json:"reserved_bps" doc:"what others have reserved"`
	LimitBps    uint64 `json:"limit_bps" doc:"what can be reserved in all"`
	FreeBps     uint64 `json:"free_bps" doc:"what can still be reserved"`
}

// Error returns one line: the field, the mistake and the remedy.
func (e *Error) Error() string {
	s := e.Msg
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// Refused reports whether the request itself was refused, as opposed to one that was
// granted and has failed.
func (e *Error) Refused() bool { return !e.Kind.Is(Failed) }

// With returns a copy of the refusal with one more remedy.
func (e *Error) With(remedy string) *Error {
	more := *e
	if more.Remedy != "" {
		remedy = more.Remedy + "; " + remedy
	}
	more.Remedy = remedy
	return &more
}

// Of returns the refusal in an error's chain, nil if there is none.
func Of(err error) *Error {
	e, _ := errors.AsType[*Error](err)
	return e
}

// KindOf returns the kind of the refusal in an error's chain, "" if there is none.
func KindOf(err error) Kind {
	if e := Of(err); e != nil {
		return e.Kind
	}
	return ""
}

// Is reports whether an error is a refusal of one of the kinds, or a case of one.
func Is(err error, kinds ...Kind) bool {
	own := KindOf(err)
	for _, k := range kinds {
		if own.Is(k) {
			return true
		}
	}
	return false
}
