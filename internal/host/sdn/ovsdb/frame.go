// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"fmt"
	"io"
	"slices"

	"weir/internal/core/bound"
)

// Bounds of a database's messages. Open vSwitch's own with 1,000 ports sends 2 MB, with a value in
// some 25 bytes. A value of two bytes, such as "1,", takes a hundred bytes of memory.
const (
	maxMessage = bound.Database       // bytes of one message
	maxDepth   = bound.DatabaseLevels // of its arrays and objects
	maxValues  = maxMessage / 48      // in them
	maxRow     = bound.DatabaseRow    // bytes of a change of a row: that of a bridge with 10,000 ports
	maxRows    = maxMessage / 256     // of a message, of all tables together, and of what bridges refer to
	rowsLevel  = 4                    // where rows stand in an update; in the first answer they stand one level higher
	maxText    = 4 * maxMessage       // bytes of all rows together
)

// messages hands over each message as soon as it is whole, and ends with the first error: of
// reading, of take, or because a message is beyond the bounds. take may not keep the text.
func messages(from io.Reader, take func(text []byte) error) error {
	var (
		f     frame
		whole []byte
	)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		for rest := buffer[:n]; len(rest) > 0; {
			used, ended, broken := f.add(rest)
			if broken != nil {
				return broken
			}
			if len(whole)+used > cap(whole) {
				whole = slices.Grow(whole, max(used, cap(whole))) // append alone would copy a long one ten times
			}
			whole, rest = append(whole, rest[:used]...), rest[used:]
			if !ended {
				continue
			}
			if err := take(whole); err != nil {
				return err
			}
			whole = whole[:0]
			if cap(whole) > 1<<20 {
				whole = nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// frame follows a stream of JSON messages, which have nothing between them: where one
// ends shows by its brackets.
type frame struct {
	size, depth   int
	values, rows  int
	quoted, escap bool
}

// add takes bytes up to the end of the message, and says how many and whether that is
// there.
func (f *frame) add(b []byte) (used int, ended bool, err error) {
	for i, c := range b {
		if f.size++; f.size > maxMessage {
			return 0, false, fmt.Errorf("message of more than %d MB", maxMessage>>20)
		}
		switch {
		case f.escap:
			f.escap = false
		case f.quoted:
			f.escap, f.quoted = c == '\\', c != '"'
		case c == '"':
			f.quoted = true
		case c == ',':
			if f.values++; f.values > maxValues {
				return 0, false, fmt.Errorf("message with more than %d values", maxValues)
			}
			if f.depth <= rowsLevel {
				f.rows++
			}
			if f.rows > maxRows {
				return 0, false, fmt.Errorf("message with more than %d rows", maxRows)
			}
		case c == '{' || c == '[':
			if f.depth++; f.depth > maxDepth {
				return 0, false, fmt.Errorf("message with more than %d levels", maxDepth)
			}
		case c == '}' || c == ']':
			if f.depth--; f.depth <= 0 {
				*f = frame{}
				return i + 1, true, nil
			}
		}
	}
	return len(b), false, nil
}
