// SPDX-License-Identifier: Apache-2.0

package main

import (
	"html"
	"regexp"
	"strings"
)

// outsideCode applies change to the lines of a page that are not in a fenced block of code.
func outsideCode(text string, change func(line string) string) string {
	lines := strings.Split(text, "\n")
	fence := ""
	for i, line := range lines {
		switch mark := fenceOf(line); {
		case fence == "" && mark != "":
			fence = mark
		case fence == "":
			lines[i] = change(line)
		case strings.HasPrefix(mark, fence):
			fence = ""
		}
	}
	return strings.Join(lines, "\n")
}

// fenceOf returns the marks with which a line opens or closes a block of code.
func fenceOf(line string) string {
	line = strings.TrimLeft(line, " ")
	marks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
	if len(marks) < 3 {
		return ""
	}
	return marks
}

var (
	item    = regexp.MustCompile(`^([-*]|1\.) `)
	nested  = regexp.MustCompile(`^ {2,3}([-*]) `)
	barred  = regexp.MustCompile("`[^`]*\\\\\\|[^`]*`")
	escaped = strings.NewReplacer(`\|`, "&#124;")
)

// portable returns a page of CommonMark so that Python-Markdown, which builders of sites
// use, reads it in the same way: an empty line before a list that follows a paragraph,
// and no \| in code in a table.
func portable(text string) string {
	before := "" // the line before, "" after a block of code
	return outsideCode(text, func(line string) string {
		changed := line
		if strings.HasPrefix(line, "|") {
			changed = barred.ReplaceAllStringFunc(line, func(code string) string {
				return "<code>" + escaped.Replace(html.EscapeString(strings.Trim(code, "`"))) + "</code>"
			})
		}
		if item.MatchString(line) && before != "" && before[0] != ' ' && !item.MatchString(before) {
			changed = "\n" + changed
		}
		before = line
		return nested.ReplaceAllString(changed, "    $1 ")
	})
}
