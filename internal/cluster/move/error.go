// SPDX-License-Identifier: Apache-2.0

package move

import "errors"

// Code says what kind of error a node met, for callers that act on it.
type Code string

// The kinds of errors.
const (
	CodeFailed      Code = "failed"       // the step failed and had no effect
	CodeNoContainer Code = "no-container" // nothing has that name
	CodeGone        Code = "gone"         // the copy was discarded, or its lease has run out
	CodeNoImage     Code = "no-image"     // the container's image is neither here nor in the registry
	CodeRefused     Code = "refused"      // the order cannot be carried out here
	CodeDone        Code = "done"         // the step was taken already, and is taken once
	CodeDenied      Code = "denied"       // nothing permits the call
	CodeNotAccepted Code = "not-accepted" // the target does not take such a container, or not from there
)

// Error is a definite answer of a node: the step was not done.
type Error struct {
	Code   Code   `json:"code"`
	Node   string `json:"node,omitempty"`
	Msg    string `json:"message"`
	Remedy string `json:"remedy,omitempty"`
}

func (e *Error) Error() string {
	text := e.Msg
	if e.Node != "" {
		text = e.Node + ": " + text
	}
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// CodeOf returns the code of a node's definite answer, "" if err is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
