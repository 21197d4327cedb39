// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"strings"

	"weir/internal/dev/papers/literal"
	"weir/internal/dev/papers/loop"
)

//go:embed text
var texts embed.FS

// prose returns a longer text of a page, without its last new line: text/NAME.md. It may have
// places for what is measured, as fmt has them.
func prose(name string) string {
	text, err := texts.ReadFile("text/" + name + ".md")
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(string(text), "\n")
}

// draw shows a picture that the page makes itself.
func (w *writer) draw(name, title string, svg []byte) {
	w.pictures[name] = svg
	w.Line("![%s](%s/%s.svg)\n", title, w.paper.name, name)
}

// words is a section of what a paper's words give, taken literally.
type words struct{ literal.Section }

func (words) runs(string) []want { return nil }

func (s words) write(w *writer) {
	text, svg := s.Write()
	w.Line("## %s\n\n%s", s.Title, text)
	w.draw(s.Picture, s.Heading, svg)
}

// lagSections are what of the CPS paper's controller is calculated.
func lagSections(w *writer) {
	table, panels := loop.Figure8()
	w.Line("%s\n\n%s\n%s\n", prose("cps-lag"), table, prose("cps-lag-why"))
	w.draw("fig08a-lag", "CPS figure 8(a) on a network with a lag, calculated", panels["fig08a-lag"])
	w.draw("fig08b-lag", "CPS figure 8(b) on a network with a lag, calculated", panels["fig08b-lag"])
	w.Line("%s\n\n%s\n%s\n", prose("cps-law"), loop.Printed(), prose("cps-law-why"))
	w.Line("%s\n\n%s\n%s\n", prose("cps-table2"), loop.Table2(), prose("cps-table2-why"))
}
