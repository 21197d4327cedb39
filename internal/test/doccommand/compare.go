// SPDX-License-Identifier: Apache-2.0

package doccommand

import (
	"regexp"
	"slices"
	"strings"
)

// anything stands in a page for text that is left out: within a line, or, alone
// on it, for lines.
const anything = "..."

var (
	// numbers matches a number with its sign, its exponent and its unit, such as -1.5e+06,
	// 20 Mbit/s, 3h or 5%; the rest of a line has to be the same.
	numbers = regexp.MustCompile(`[-+~]?\d([\d.,]*\d)?(e[-+]\d+)?( ?([kMG]?bit/s|[kMG]?B|%|ns|us|ms|s|min|h|d|m)\b)?`)
	// ids matches the ids of moves and containers.
	ids = regexp.MustCompile(`m-[0-9]{8}-[0-9]{6}-[a-z0-9]{6}`)
	// handles matches the handles of qdiscs, in hexadecimal.
	handles = regexp.MustCompile(`\b[0-9a-f]{1,4}:( |$)`)
	spaces  = regexp.MustCompile(`\s+`)
)

// normal returns a line without the parts that may differ from run to run.
func normal(line string) string {
	line, _, _ = strings.Cut(line, "  # ")
	line = ids.ReplaceAllString(line, "ID")
	line = handles.ReplaceAllString(line, "N: ")
	line = numbers.ReplaceAllString(line, "N")
	return strings.TrimSpace(spaces.ReplaceAllString(line, " "))
}

// matches reports whether a printed line fits the line of the page, in which "..." stands
// for anything.
func matches(shown, printed string) bool {
	parts := strings.Split(normal(shown), anything)
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(strings.TrimSpace(part))
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(normal(printed))
}

// Missing returns the first line that a page shows of a command's output and that
// is not in what the command printed, in that order; "" if all are there. Numbers
// and the width of columns do not count. A line "..." has to stand for other printed
// lines, before, between or after the lines shown.
func Missing(shown []string, printed string) string {
	rest := filled(strings.Split(printed, "\n"))
	skip := false
	for _, want := range filled(shown) {
		if strings.TrimSpace(want) == anything {
			skip = true
			continue
		}
		at := slices.IndexFunc(rest, func(line string) bool { return matches(want, line) })
		if at < 0 || at > 0 && !skip {
			return want
		}
		rest, skip = rest[at+1:], false
	}
	if len(rest) > 0 && !skip {
		return "the end, before " + strings.TrimSpace(rest[0])
	}
	return ""
}

// filled returns the lines that are not blank.
func filled(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.TrimSpace(line) == "" })
}
