// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"strconv"
	"strings"
)

// Error is a mistake in what a person wrote.
type Error struct {
	Field  string // what was set: "min", "weight"; "" if only the caller knows
	Value  string // as it was written
	Msg    string // the mistake in it
	Remedy string // what to write instead
}

// Error returns one line: field, value, mistake and remedy.
func (e *Error) Error() string {
	head := strings.TrimSpace(e.Field + " " + quote(e.Value))
	line := head + ": " + e.Msg
	if e.Remedy != "" {
		line += "; " + e.Remedy
	}
	return line
}

// InField says which field the value in err was written in. Errors that are no
// *Error, and nil, are returned as they are.
func InField(field string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	named := *e
	named.Field = field
	return &named
}

// quote keeps a value that came from anywhere on one line of sensible length.
func quote(value string) string {
	const longest = 40
	if runes := []rune(value); len(runes) > longest {
		value = string(runes[:longest]) + "..."
	}
	return strconv.Quote(value)
}
