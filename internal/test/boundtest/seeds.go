// SPDX-License-Identifier: Apache-2.0

package boundtest

import (
	"fmt"
	"strconv"
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

// Rules returns two queues, as JSON and so as YAML too, the first with as many matches as fit,
// at most 64. Each has three lists of 64 ports, which stand for 64 * 64 * 64 rules: a million in
// the 4 KiB of a label.
func Rules(length int) string {
	const before, after = `[{"name":"a","match":[`, `]},{"name":"b"}]`
	var list []string
	for port := 1; len(list) < 64; port += 2 { // no two make a range
		list = append(list, strconv.Itoa(port))
	}
	ports := "[" + strings.Join(list, ",") + "]"
	match := `{"tcp":` + ports + `,"sport":` + ports + `,"dport":` + ports + `},`
	matches := strings.Repeat(match, min(64, (length-len(before)-len(after))/len(match)))
	return before + strings.TrimSuffix(matches, ",") + after
}

// Fields returns pairs of a field of a policy and a text for it: of those that can be read, the
// ones that cost most, of length bytes or nearly so.
func Fields(length int) [][2]string {
	var zones, times strings.Builder
	for i := range min(256, length/32) {
		fmt.Fprintf(&zones, "z%d max 1mbit min 1%%;", i)
	}
	for hour := range 16 { // each in a minute of its own, whatever the zones' offsets are
		zone := []string{"Europe/Berlin", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe"}[hour%4]
		fmt.Fprintf(&times, "mon-fri %02d:%02d-%02d:%02d %s weight 8;", hour, 2*hour+hour%4/3, hour, 2*hour+hour%4/3+1, zone)
	}
	filled := func(text string) string { return text + strings.Repeat(" ", length-len(text)) }
	return [][2]string{{"queues", Rules(length)}, {"zones", filled(strings.TrimSuffix(zones.String(), ";"))}, {"when", filled(strings.TrimSuffix(times.String(), ";"))},
		{"quota", filled("egress 1GB ingress 1GB per month from 31 timezone Australia/Lord_Howe then max 5mbit")}}
}

// Changes returns changes of a policy, as JSON, each with a field of Fields.
func Changes(length int) (changes []string) {
	for _, f := range Fields(length - 64) {
		value := f[1]
		if f[0] != "queues" { // which is JSON already
			value = `"` + value + `"`
		}
		changes = append(changes, `{"discipline":"pq","`+f[0]+`":`+value+`}`)
	}
	return changes
}

// long is the length up to which a target gets all shapes; of longer ones it gets those of large.
const long = 64 << 10

// large are the shapes that cost most in proportion to their length.
var large = []string{"[", `{"a":`, `[{"a":`, "{},", "1,", "1", "k"}

// elements are those of lists that a decoder of JSON makes most of: an object without members is a
// whole struct, and a value of the wrong type is one too, beside an error.
var elements = []string{"{}", "0", `""`, "null"}

// Lists returns texts of JSON of up to length bytes: each a list of as many of one of the elements
// as fit, behind an opening whose brackets are closed. A decoder refuses an open one before it
// makes anything of it.
func Lists(length int, opening string) (texts []string) {
	if !strings.HasSuffix(opening, "[") {
		opening += "["
	}
	end := ""
	for _, c := range opening {
		switch c {
		case '[':
			end = "]" + end
		case '{':
			end = "}" + end
		case ']', '}':
			end = end[min(len(end), 1):]
		}
	}
	for _, e := range elements {
		more := max(0, length-len(opening)-len(e)-len(end)) / (len(e) + 1)
		texts = append(texts, opening+strings.Repeat(e+",", more)+e+end)
	}
	return texts
}

// Texts returns the shapes for a target whose input may have most bytes, alone and behind each of
// the openings, such as "weir.queues=" or `{"queues":`, with none of their brackets closed, and
// lists whose are.
func Texts(most int, openings ...string) []string {
	var texts []string
	for _, opening := range append([]string{""}, openings...) {
		texts = append(texts, Lists(most, opening)...)
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
