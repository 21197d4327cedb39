// SPDX-License-Identifier: Apache-2.0

// Package table lays out rows of text in columns, for terminals.
//
//	t := table.New("NAME", ">RATE")
//	t.Add("web", "50 Mbit/s")
//	t.Add("batch", "5 Mbit/s")
//
// prints
//
//	NAME        RATE
//	web    50 Mbit/s
//	batch   5 Mbit/s
//
// A title that begins with ">" makes its column flush right, for numbers. Widths count
// columns of the screen. A cell never carries control characters, because the user who
// starts a container chooses its name.
package table

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/lipgloss"
)

// gap is between two columns.
const gap = "  "

// Table holds a header and rows.
type Table struct {
	rows  [][]string
	right []bool
}

// New makes a table with these titles.
func New(titles ...string) *Table {
	t := &Table{right: make([]bool, len(titles))}
	header := make([]string, len(titles))
	for i, title := range titles {
		header[i], t.right[i] = strings.CutPrefix(title, ">")
	}
	t.rows = append(t.rows, header)
	return t
}

// Add appends a row; it may be shorter than the header.
func (t *Table) Add(cells ...string) {
	row := make([]string, len(t.right))
	for i, c := range cells {
		row[i] = Clean(c)
	}
	t.rows = append(t.rows, row)
}

// String returns the whole table, each line ended.
func (t *Table) String() string {
	widths := make([]int, len(t.right))
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], lipgloss.Width(c))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = Pad(c, widths[i], t.right[i])
		}
		b.WriteString(strings.TrimRight(strings.Join(cells, gap), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// Pad brings s to a width on the screen; it cuts a longer text, which then ends in "…".
func Pad(s string, width int, right bool) string {
	w := lipgloss.Width(s)
	if w > width {
		return cut(s, width)
	}
	space := strings.Repeat(" ", width-w)
	if right {
		return space + s
	}
	return s + space
}

func cut(s string, width int) string {
	if width <= 0 {
		return ""
	}
	end := 0
	for i := range s { // a mark has a width alone, and none beside the letter that it belongs to
		_, size := utf8.DecodeRuneInString(s[i:])
		next := i + size
		if lipgloss.Width(s[:next]) > width-1 {
			break
		}
		end = next
	}
	short := s[:end] + "…"
	return short + strings.Repeat(" ", max(0, width-lipgloss.Width(short)))
}

// Clean replaces control characters, which would move the cursor or change colours.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// CleanLines replaces the same characters as Clean in a text of several lines, and keeps
// the line ends.
func CleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Clean(line)
	}
	return strings.Join(lines, "\n")
}
