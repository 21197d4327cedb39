// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"encoding/binary"
	"fmt"
)

// Error is the answer of a switch to a message that it refuses (7.4.4).
type Error struct {
	Type, Code uint16
	Flow       *Flow // what it is about, if it was a change of a flow
}

const (
	errorHelloFailed  = 0
	errorExperimenter = 0xffff
)

// errorTypes are the names of Error.Type.
var errorTypes = map[uint16]string{
	errorHelloFailed: "hello failed", 1: "bad request", 2: "bad action", 3: "bad instruction", 4: "bad match",
	5: "flow cannot be changed", 13: "not permitted", errorExperimenter: "refused",
}

// errorCodes are the names of those codes that a mistake of Weir's user can
// lead to.
var errorCodes = map[[2]uint16]string{
	{1, 5}: "no permission", {1, 12}: "no such port",
	{2, 4}: "no such port to send to", {2, 8}: "no such queue",
	{4, 6}: "field is not known to the switch", {4, 7}: "value of a field is out of its range", {4, 9}: "a field needs another one that is missing",
	{5, 1}: "flow table is full", {5, 2}: "no such table", {5, 3}: "overlaps another flow", {5, 4}: "no permission",
}

// decodeError reads the body of an error message; a body that is too short has no code.
func decodeError(b []byte) *Error {
	e := &Error{Type: errorExperimenter}
	if len(b) >= 4 {
		e.Type, e.Code = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	}
	return e
}

func (e *Error) about(f Flow) *Error {
	e.Flow = &f
	return e
}

// Error names type, code and the flow.
func (e *Error) Error() string {
	what := errorTypes[e.Type]
	if what == "" {
		what = "refused"
	}
	text := fmt.Sprintf("the switch says: %s (OpenFlow error %d.%d)", what, e.Type, e.Code)
	if name := errorCodes[[2]uint16{e.Type, e.Code}]; name != "" {
		text = fmt.Sprintf("the switch says: %s, %s (OpenFlow error %d.%d)", what, name, e.Type, e.Code)
	}
	if e.Flow != nil {
		text = fmt.Sprintf("flow priority=%d,%s actions=%s: %s", e.Flow.Priority, e.Flow.Match, e.Flow.ActionText(), text)
	}
	return text
}
