// SPDX-License-Identifier: Apache-2.0

// Package markdown writes what pages about measurements consist of: lines, tables and links to
// headings. Example:
//
//	var w markdown.Writer
//	w.Line("## %s\n", "Table 1: latency")
//	w.Head("scheduler", "p99")
//	w.Row("fair", "0.06 ms")
//
// It escapes nothing: cells and titles are the page's own.
package markdown

import (
	"fmt"
	"math"
	"strings"
)

// Writer is a page as it grows.
type Writer struct{ strings.Builder }

// Line adds a line.
func (w *Writer) Line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// Head begins a table.
func (w *Writer) Head(cells ...string) {
	w.Row(cells...)
	w.Line("|%s", strings.Repeat("---|", len(cells)))
}

// Numbers begins a table whose columns, but for the first, are aligned to the right.
func (w *Writer) Numbers(cells ...string) {
	w.Row(cells...)
	w.Line("|---|%s", strings.Repeat("---:|", len(cells)-1))
}

// Row adds a row to a table.
func (w *Writer) Row(cells ...string) { w.Line("| %s |", strings.Join(cells, " | ")) }

// Table returns a whole table, the first row being its head.
func Table(rows ...[]string) string {
	var w Writer
	for i, r := range rows {
		if i == 0 {
			w.Head(r...)
			continue
		}
		w.Row(r...)
	}
	return w.String()
}

// Thousands writes a whole number with commas: 16,988.
func Thousands(v float64) string {
	text := fmt.Sprintf("%.0f", math.Abs(v))
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if v < 0 && text != "0" {
		text = "-" + text
	}
	return text
}

// Anchor returns the anchor that a heading gets: of "Table 1: latency", "table-1-latency".
func Anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case ' ':
			return '-'
		case ':', ',', '(', ')':
			return -1
		}
		return r
	}, strings.ToLower(heading))
}
