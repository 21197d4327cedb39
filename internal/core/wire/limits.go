// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"weir/internal/core/bound"
)

// Limits of what a message may hold, in bytes of text or in number. A sender shortens
// texts for people with Clip; Check refuses a text that is too large all the same.
// The whole message is bounded by MaxMessage.
const (
	MaxText       = 4096       // errors and reasons, for people
	MaxName       = 512        // names, ids, versions, addresses, steps
	MaxChange     = bound.Body // a ChangeJSON: policies with queues and rules
	MaxEngines    = 8          // of a node
	MaxMoves      = 1000       // under way on a node
	MaxContainers = 2000       // of a node
	MaxLabels     = 1000       // of a container
	MaxMissing    = 64         // of a profile
	MaxAcceptFrom = 2000       // of a profile

	maxValues  = 1 << 17 // of a message; in a list of it as many as MaxContainers, the longest that there is
	maxRate    = 1e15    // bits or bytes per second, and what else a profile counts
	maxCPUs    = 1e5     // of a node
	maxMemory  = 1 << 52 // bytes: 4 PiB
	maxSeconds = 86400   // of an interval
)

// Clip shortens a text to a number of bytes, on a border of characters, and marks that
// with "...".
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[:most-3]
	for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	if r, size := utf8.DecodeLastRuneInString(text); r == utf8.RuneError && size == 1 {
		text = text[:len(text)-1]
	}
	return strings.ToValidUTF8(text, "") + "..."
}

// short refuses texts beyond a limit: name, value, name, value, ...
func short(most int, pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if len(pairs[i+1]) > most {
			return fmt.Errorf("%s has %d bytes; at most %d are possible", pairs[i], len(pairs[i+1]), most)
		}
	}
	return nil
}

// few refuses lists beyond a limit.
func few(name string, many, most int) error {
	if many > most {
		return fmt.Errorf("%d %s; at most %d are possible", many, name, most)
	}
	return nil
}
