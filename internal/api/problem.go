// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"encoding/json"
	"net/http"

	"weir/internal/core/refusal"
)

// ProblemDetails is a refusal as it crosses the socket: problem details (RFC 9457) with the
// kind, the field, the value, the remedy and the numbers as members of their own, so that
// a program can act on them and a user reads one line.
type ProblemDetails struct {
	Type    string           `json:"type" doc:"always about:blank: the kind says what sort of problem it is"`
	Title   string           `json:"title" example:"Conflict" doc:"the status in words"`
	Status  int              `json:"status" example:"409"`
	Kind    refusal.Kind     `json:"kind" example:"no_room"`
	Detail  string           `json:"detail" example:"80 Mbit/s asked, 30 Mbit/s reserved by others, 70 Mbit/s free" doc:"the problem, with its numbers"`
	Object  string           `json:"object,omitempty" example:"link eth0" doc:"whose room or ability is missing"`
	Field   string           `json:"field,omitempty" example:"min" doc:"the field that has the problem"`
	Value   string           `json:"value,omitempty" example:"80mbit" doc:"the value that was given"`
	Remedy  string           `json:"remedy,omitempty" example:"ask for at most 70mbit" doc:"what to do about it"`
	Numbers *refusal.Numbers `json:"numbers,omitempty" doc:"the amounts, in bits per second, where there is no room"`
}

// statuses are the HTTP statuses of the kinds; a kind that is missing here crosses as the
// kind that it is a case of.
var statuses = map[refusal.Kind]int{
	refusal.Invalid:  http.StatusUnprocessableEntity,
	refusal.Unknown:  http.StatusNotFound,
	refusal.Conflict: http.StatusConflict,
	refusal.Denied:   http.StatusForbidden,
	refusal.TooMany:  http.StatusTooManyRequests,
	refusal.Failed:   http.StatusInternalServerError,
	refusal.Busy:     http.StatusServiceUnavailable,
	refusal.Timeout:  http.StatusGatewayTimeout,
}

// StatusOf returns the HTTP status of a kind.
func StatusOf(k refusal.Kind) int {
	status, ok := refusal.In(statuses, k)
	if !ok {
		return http.StatusInternalServerError
	}
	return status
}

// KindOf returns the kind of an answer that has an HTTP status only: of a server of an
// older version, of a proxy, or of the HTTP library.
func KindOf(status int) refusal.Kind {
	for k, s := range statuses {
		if s == status {
			return k
		}
	}
	if status >= 400 && status < 500 {
		return refusal.Invalid
	}
	return refusal.Failed
}

// ProblemOf returns a refusal as it crosses the socket.
func ProblemOf(err *refusal.Error) *ProblemDetails {
	status := StatusOf(err.Kind)
	return &ProblemDetails{
		Type:    "about:blank",
		Title:   http.StatusText(status),
		Status:  status,
		Kind:    err.Kind,
		Detail:  err.Msg,
		Object:  err.Object,
		Field:   err.Field,
		Value:   err.Value,
		Remedy:  err.Remedy,
		Numbers: err.Numbers,
	}
}

// WithStatus returns the problem with another HTTP status of the same kind, which says more to a
// program that knows HTTP only: 400, 405.
func (p *ProblemDetails) WithStatus(status int) *ProblemDetails {
	other := *p
	other.Status, other.Title = status, http.StatusText(status)
	return &other
}

// AsError returns the refusal that the problem describes, as ProblemOf got it. If the
// problem names no kind that this version knows, the kind follows from its status, or
// without one from the status of the response.
func (p *ProblemDetails) AsError(status int) *refusal.Error {
	status = cmp.Or(p.Status, status)
	kind := p.Kind
	if !kind.Known() {
		kind = KindOf(status)
	}
	return &refusal.Error{
		Kind:    kind,
		Object:  p.Object,
		Field:   p.Field,
		Value:   p.Value,
		Msg:     cmp.Or(p.Detail, p.Title, http.StatusText(status)),
		Remedy:  p.Remedy,
		Numbers: p.Numbers,
	}
}

// Error implements error, so that a handler can return a problem.
func (p *ProblemDetails) Error() string { return p.AsError(p.Status).Error() }

// GetStatus returns the HTTP status of the answer.
func (p *ProblemDetails) GetStatus() int { return p.Status }

// ContentType marks a JSON body as problem details.
func (p *ProblemDetails) ContentType(ct string) string {
	if ct == "application/json" {
		return "application/problem+json"
	}
	return ct
}

// WriteProblem answers a request with a problem.
func WriteProblem(w http.ResponseWriter, p *ProblemDetails) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	// A client that has gone away cannot be told so.
	_ = json.NewEncoder(w).Encode(p)
}
