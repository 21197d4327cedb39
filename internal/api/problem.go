// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"net/http"
)

// Problem is how an error crosses the socket: problem details (RFC 9457) with
// the field, the value and the remedy as members of their own, so that a
// program can act on them and a person reads one line.
type Problem struct {
	Type   string `json:"type" doc:"always about:blank: the status says what kind of problem it is"`
	Title  string `json:"title" example:"Conflict" doc:"the status in words"`
	Status int    `json:"status" example:"409"`
	Detail string `json:"detail" example:"80 Mbit/s asked, 30 Mbit/s reserved by others, 70 Mbit/s free" doc:"what is wrong, with its numbers"`
	Field  string `json:"field,omitempty" example:"min" doc:"what the problem is about"`
	Value  string `json:"value,omitempty" example:"80mbit" doc:"what was given"`
	Remedy string `json:"remedy,omitempty" example:"ask for at most 70mbit" doc:"what to do about it"`
}

// ProblemOf is err as it crosses the socket.
func ProblemOf(err *Error) *Problem {
	return &Problem{
		Type:   "about:blank",
		Title:  http.StatusText(err.Status),
		Status: err.Status,
		Detail: err.Msg,
		Field:  err.Field,
		Value:  err.Value,
		Remedy: err.Remedy,
	}
}

// AsError is the opposite of ProblemOf. status is the one that the response
// carried; it counts if the problem does not name its own.
func (p *Problem) AsError(status int) *Error {
	return &Error{
		Status: cmp.Or(p.Status, status),
		Field:  p.Field,
		Value:  p.Value,
		Msg:    cmp.Or(p.Detail, p.Title, http.StatusText(status)),
		Remedy: p.Remedy,
	}
}

// Error makes a Problem something that a handler can return.
func (p *Problem) Error() string { return p.AsError(p.Status).Error() }

// GetStatus is the HTTP status to answer with.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType marks a JSON body as problem details.
func (p *Problem) ContentType(ct string) string {
	if ct == "application/json" {
		return "application/problem+json"
	}
	return ct
}
