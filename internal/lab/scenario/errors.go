// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"
)

// Error is one mistake in a scenario file, with its place.
type Error struct {
	File      string
	Line, Col int
	Field     string // path of the key, e.g. "workloads.c1.min"; "" for the document
	Value     string // as written; "" if there is none to show
	Problem   string // the mistake and its remedy
}

// Error returns one line: place, field, value, problem and remedy.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Col)
	if e.Field != "" {
		b.WriteString(e.Field)
		if e.Value != "" {
			fmt.Fprintf(&b, " %q", e.Value)
		}
		b.WriteString(": ")
	}
	b.WriteString(e.Problem)
	return b.String()
}
