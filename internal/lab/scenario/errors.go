// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"

	"weir/internal/closest"
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

// nearest is the candidate that word was probably meant to be, "" if none is
// close: at most one edit for each three letters.
func nearest(word string, candidates []string) string {
	best, bestDistance := "", len(word)/3+2
	for _, c := range candidates {
		if d := closest.Distance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}
