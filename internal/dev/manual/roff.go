// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// writer writes one page in the language of man(7).
type writer struct {
	name, section string
	fresh         bool // nothing stands below the last heading yet
	b             strings.Builder
}

// begin writes the head of a page and its line for whatis(1).
func (e edition) begin(name, section, short string) *writer {
	w := &writer{name: name, section: section}
	fmt.Fprintf(&w.b, ".\\\" Made by internal/dev/manual of the program itself.\n")
	fmt.Fprintf(&w.b, ".TH %s %s \"%s\" \"Weir %s\" \"Weir\"\n", quoted(strings.ToUpper(name)), section, e.date.Format("2006-01-02"), escape(e.version))
	w.heading("NAME")
	fmt.Fprintf(&w.b, "%s \\- %s\n", escape(name), escape(short))
	return w
}

func (w *writer) page() page { return page{w.name, w.section, w.b.String()} }

func (w *writer) heading(title string) {
	fmt.Fprintf(&w.b, ".SH %s\n", quoted(title))
	w.fresh = true
}

func (w *writer) subheading(title string) { fmt.Fprintf(&w.b, ".SS %s\n", quoted(title)) }

// paragraph begins a paragraph, which a heading has done already.
func (w *writer) paragraph() {
	if !w.fresh {
		w.b.WriteString(".PP\n")
	}
	w.fresh = false
}

// item writes a term and what it means.
func (w *writer) item(term, meaning string) {
	fmt.Fprintf(&w.b, ".TP\n\\fB%s\\fR\n%s\n", escape(term), line(meaning))
}

// prose writes paragraphs. Lines that begin with a space stay as they are.
func (w *writer) prose(text string) {
	for paragraph := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		lines := strings.Split(paragraph, "\n")
		for len(lines) > 0 {
			n := 1
			for n < len(lines) && indented(lines[n]) == indented(lines[0]) {
				n++
			}
			if indented(lines[0]) {
				w.literal(strings.Join(lines[:n], "\n"))
			} else {
				w.paragraph()
				for _, l := range lines[:n] {
					w.b.WriteString(line(l) + "\n")
				}
			}
			lines = lines[n:]
		}
	}
}

func indented(line string) bool { return strings.HasPrefix(line, " ") }

// literal writes text that is not filled.
func (w *writer) literal(text string) {
	w.paragraph()
	w.b.WriteString(".nf\n")
	for l := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		w.b.WriteString(line(l) + "\n")
	}
	w.b.WriteString(".fi\n")
}

func (w *writer) seeAlso(names []string) {
	w.heading("SEE ALSO")
	for i, name := range names {
		section := "1"
		switch name {
		case "weir.yaml":
			section = "5"
		case "tc":
			section = "8"
		}
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		fmt.Fprintf(&w.b, ".BR %s (%s)%s\n", escape(name), section, comma)
	}
}

// line returns a line of text that man(7) takes for no request.
func line(text string) string {
	text = escape(strings.TrimRight(text, " "))
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}

// escape returns text as it is to be seen: a minus stays a minus, a backslash a backslash.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
}

func quoted(text string) string { return `"` + strings.ReplaceAll(escape(text), `"`, `\(dq`) + `"` }
