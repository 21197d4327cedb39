// SPDX-License-Identifier: Apache-2.0

// Package bound has the bounds of everything that a user other than root may write and a
// program of Weir's reads: how long it may be, how deep, how many of it, and what one of them
// may cost. The table is Inputs;
// the code that holds a bound takes it from here. Example: a label is at most 4 KiB, so
//
//	bound.Length("label weir.queues", len(text), bound.Label)
//
// refuses one of 40,000 bytes with both numbers before a parser sees it.
//
// The package parses nothing and holds nothing by itself: each row of the table names the
// function that does, and the fuzz targets that drive it.
package bound

import (
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// What one input may cost a program, beyond what it keeps of it.
const (
	Memory = 64 << 20               // bytes
	CPU    = 100 * time.Millisecond // of the thread that reads it; collection of garbage apart
)

// Texts of policies.
const (
	Levels = 8       // lists and mappings in each other
	Label  = 4 << 10 // bytes of one label or annotation
	Name   = 256     // bytes of a name: of a label, container, unit, group
	Labels = 100     // of Weir's at one object; further ones do not count
	Line   = 8 << 10 // of the audit log, with its end
	Policy = 64 << 10
	Zones  = 256 // of which a policy may say something: what is written of them fits into Policy
)

// What engines, kernels and Kubernetes say of objects that others made.
const (
	Annotations = 256 << 10  // bytes of all annotations of an object, as the API server holds them
	Claim       = 1536 << 10 // of a claim of devices: what etcd takes of an object
	Container   = 1 << 20    // of what an engine says of a container
	Engine      = 32 << 20   // of a line that an engine writes, which is an event or a whole list: 4,095 containers of 8 KiB
	Cgroups     = 64 << 10   // of a file of a cgroup, or of the cgroups of a process
	Path        = 4 << 10    // of a path, as the kernel takes them
	Rules       = 32 << 20   // of what a program prints of the host's firewall
	Prefixes    = 4 << 20    // of a file of prefixes
	Machine     = 256 << 10  // of a QEMU command line, or of libvirt's description of a machine
)

// What a switch says.
const (
	Database       = 8 << 20 // bytes of a message of its database; with 1,000 ports it sends 2 MB
	DatabaseRow    = 1 << 20 // of a change of a row in it
	DatabaseLevels = 64      // of its arrays and objects
	Flows          = 4 << 20 // of all parts of an OpenFlow answer, whose messages have 64 KiB by their format
)

// What members of a cluster say.
const (
	Message     = 1 << 20   // bytes of a message of the bus
	Call        = 1 << 20   // of a call of a node or of the migration helper
	Description = 256 << 10 // of a container that is to come
	Values      = 32 << 10  // values of JSON in it, and in a call; an honest one has one in some 30 bytes
	Manifest    = 4 << 20   // of an image; distribution's own limit
	Window      = 8 << 20   // of a packed stream that its reader remembers
)

// HTTP.
const (
	Body       = 64 << 10 // bytes of a request's body
	BodyLevels = 16       // of arrays and objects: a policy and what is around it
	Header     = 16 << 10 // bytes of a request's header
	// Refused is what a request may cost that is refused for who asks, beyond the TLS
	// handshake.
	RefusedMemory = 64 << 10
	RefusedCPU    = time.Millisecond
)

// Error is an input beyond a bound.
type Error struct {
	What     string // is too large, such as "label weir.queues"
	Has, Max int
	Unit     string // "bytes", "levels"
	Remedy   string
}

// Error returns one line with both numbers.
func (e *Error) Error() string {
	line := fmt.Sprintf("%d %s, %d are the most", e.Has, e.Unit, e.Max)
	if e.What != "" {
		line = e.What + ": " + line
	}
	if e.Remedy != "" {
		line += "; " + e.Remedy
	}
	return line
}

// Length refuses an input of more bytes than most.
func Length(what string, size, most int) error {
	if size <= most {
		return nil
	}
	return &Error{What: what, Has: size, Max: most, Unit: "bytes", Remedy: "write less"}
}

// Shown returns a name that users chose as it may be kept and shown: at most Name bytes of it,
// with a question mark in place of each character that is not printable.
func Shown(name string) string {
	shown := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name[:min(len(name), Name)])
	return shown[:min(len(shown), Name)]
}

// JSON refuses a text of more nested arrays and objects than most. It looks at each byte once
// and takes no memory. A text that is no JSON it may pass: its reader refuses that.
func JSON(what string, text []byte, most int) error {
	depth, deepest := 0, 0
	for c := range structure(text) {
		switch c {
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		}
	}
	if deepest <= most {
		return nil
	}
	return &Error{What: what, Has: deepest, Max: most, Unit: "levels", Remedy: "nest less"}
}

// structure returns the brackets, braces and commas of a JSON text that are in no string.
func structure(text []byte) iter.Seq[byte] {
	return func(yield func(byte) bool) {
		quoted := false
		for i := 0; i < len(text); i++ {
			switch c := text[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case !quoted && (c == '[' || c == '{' || c == ']' || c == '}' || c == ','):
				if !yield(c) {
					return
				}
			}
		}
	}
}

// Lists refuses a JSON text of more values than most, or with more than longest in one list. A
// decoder makes a struct of each value of a list of structs: some hundred bytes of the two of {} or
// 0, and several times that while the list grows. Lists looks at each byte once and takes no
// memory; lists that are in 32 others or more count as one. A text that is no JSON it may pass.
func Lists(what string, text []byte, most, longest int) error {
	var open [32]struct {
		list   bool
		values int
	}
	values, long, level := 1, 0, 0
	for c := range structure(text) {
		switch c {
		case ',':
			at := &open[min(level, len(open)-1)]
			values++
			if at.values++; at.list {
				long = max(long, at.values)
			}
		case '[', '{':
			values++
			if level++; level < len(open) {
				open[level].list, open[level].values = c == '[', 1
			}
		case ']', '}':
			level = max(0, level-1)
		}
	}
	switch {
	case values > most:
		return &Error{What: what, Has: values, Max: most, Unit: "values", Remedy: "write fewer"}
	case long > longest:
		return &Error{What: what, Has: long, Max: longest, Unit: "values in a list", Remedy: "write fewer"}
	}
	return nil
}
