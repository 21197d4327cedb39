// SPDX-License-Identifier: Apache-2.0

package boundtest

import (
	"strings"
	"testing"
)

// units are what the worst inputs repeat: nesting, lists, keys, comments, quotes and numbers
// without an end, in YAML, JSON and the formats of lines.
var units = []string{
	"[", "{", "{a: ", "- ", "? ", `{"a":`, `[{"a":`, "[]", "{},", "[a],", "{a: b},", `{"a":1},`, // nesting
	`{"ingress":`, `{"queues":[`, `{"when":{`,
	"a,", "a: b\n", "a:\n", "- a\n", "-\n", "? a\n", "a:\n b:\n  c: d\n", "1,", `"a",`, // lists and keys
	"&a ", "- &a b\n", "*a,", "- *a\n", "!a ", "!!", "<<: ", // anchors, aliases, tags, merge keys
	"1", "9.", "1e9", "-", "0x", "%", // numbers with many digits
	"k", "ü", "\xff", "\x00", "\x1b[", "\\", "\\u0000", // long words
	"\"", "'", "# c\n", "#", "|\n", ">\n", "- |\n a\n", "\n", "\r\n", "\t", " ", // comments, quotes, blanks
	": ", ":", ";", "mon 08:00-18:00 Europe/Berlin weight 8;", "lan max 1mbit;", "/", "../", "=", ".", "---\n", "...\n", "%TAG !a! b\n",
}

// Shapes returns the texts that cost parsers most, each of the given length.
func Shapes(length int) []string {
	var shapes []string
	for _, unit := range units {
		shapes = append(shapes, strings.Repeat(unit, length/len(unit)+1)[:length])
	}
	return append(shapes, Keys(length), "|\n "+strings.Repeat("\n", max(0, length-3)), strings.Repeat("[", length/2)+strings.Repeat("]", length/2))
}

// Keys returns a mapping of many keys, no two alike.
func Keys(length int) string {
	var text strings.Builder
	for i := 0; text.Len() < length; i++ {
		for n := i + 1; n > 0; n /= 26 {
			text.WriteByte(byte('a' + n%26))
		}
		text.WriteString(": 1\n")
	}
	return text.String()[:length]
}

// long is the length up to which a target gets all shapes; of longer ones it gets those of large.
const long = 64 << 10

// large are the shapes that cost most in proportion to their length.
var large = []string{"[", `{"a":`, `[{"a":`, "{},", "1,", "1", "k"}

// Texts returns the shapes for a target whose input may have most bytes, alone and behind each of
// the openings, such as "weir.queues=" or `{"queues":`, with none of their brackets closed.
func Texts(most int, openings ...string) []string {
	var texts []string
	for _, opening := range append([]string{""}, openings...) {
		for _, shape := range Shapes(max(0, min(most, long)-len(opening))) {
			texts = append(texts, opening+shape)
		}
		for _, unit := range large {
			if most > long {
				texts = append(texts, opening+strings.Repeat(unit, (most-len(opening))/len(unit)))
			}
		}
	}
	return texts
}

// Seeds adds the texts that Texts returns to a target with one argument.
func Seeds[T string | []byte](f *testing.F, most int, openings ...string) {
	f.Helper()
	for _, text := range Texts(most, openings...) {
		f.Add(T(text))
	}
}
