// SPDX-License-Identifier: Apache-2.0

package api

import (
	"errors"

	"weir/internal/core/invalid"
	"weir/internal/core/policy/admission"
	"weir/internal/core/refusal"
)

// Mistake returns a mistake in what was asked as a refusal: a *invalid.Error with its field,
// value and remedy, any other error with its text.
func Mistake(err error) *refusal.Error {
	mistake, ok := errors.AsType[*invalid.Error](err)
	if !ok {
		return &refusal.Error{Kind: refusal.Invalid, Msg: err.Error()}
	}
	return &refusal.Error{Kind: refusal.Invalid, Field: mistake.Field, Value: mistake.Value, Msg: mistake.Msg, Remedy: mistake.Remedy}
}

// NoRoom returns the refusal of a min or a reservation that a link, or a group on it, has
// no room for. The caller adds the value, and names the link in the text.
func NoRoom(r *admission.Refused, link string) *refusal.Error {
	e := &refusal.Error{Kind: refusal.NoRoom, Object: "link " + link, Field: r.Field(), Msg: r.Reason(), Remedy: r.Remedy(),
		Numbers: &refusal.Numbers{AskedBps: uint64(r.Asked), PayloadBps: uint64(r.Goodput), ReservedBps: uint64(r.Reserved), LimitBps: uint64(r.Limit), FreeBps: uint64(r.Free)}}
	if r.Group != "" {
		e.Object = "group " + r.Group
	}
	return e
}
