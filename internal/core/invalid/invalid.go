// SPDX-License-Identifier: Apache-2.0

// Package invalid has the error of parsers and checks: a value that cannot be what a person
// wrote, with the field, the mistake and what to write instead. Example:
//
//	&Error{Field: "min", Value: "20m", Msg: "m is milli to Kubernetes, mega to others", Remedy: "write 20M or 20mbit"}
//
// prints
//
//	min "20m": m is milli to Kubernetes, mega to others; write 20M or 20mbit
//
// A parser often does not know the field that it reads for; its caller adds it with
// InField or Within. The error does not say who asked: the same mistake is a line of
// weir config check, a note about a label, or a refusal (package refusal) of a request.
package invalid

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
	head := strings.TrimSpace(e.Field + " " + Quote(e.Value))
	line := head + ": " + e.Msg
	if e.Remedy != "" {
		line += "; " + e.Remedy
	}
	return line
}

// Root returns the field without what names a part of its value: "queues" of
// "queues.voice.rate", "when" of "when[1].days".
func (e *Error) Root() string {
	if end := strings.IndexAny(e.Field, ".["); end >= 0 {
		return e.Field[:end]
	}
	return e.Field
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

// Within puts a word and a dot before the field that the error names, or the word alone if it
// names none. Errors that are no *Error, and nil, are returned as they are.
func Within(prefix string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	named := *e
	named.Field = strings.TrimSuffix(prefix+"."+e.Field, ".")
	return &named
}

// Quote keeps a value that came from anywhere on one line of sensible length.
func Quote(value string) string {
	const longest = 40
	if runes := []rune(value); len(runes) > longest {
		value = string(runes[:longest]) + "..."
	}
	return strconv.Quote(value)
}

// Listed returns words as a list in a sentence: "a, b or c" with the last word "or".
func Listed(words []string, last string) string {
	n := len(words)
	if n < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n-1], ", ") + " " + last + " " + words[n-1]
}
