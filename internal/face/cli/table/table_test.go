// SPDX-License-Identifier: Apache-2.0

package table

import (
	"testing"

	"github.com/charmbracelet/lipgloss"
	"pgregory.net/rapid"
)

func TestTable(t *testing.T) {
	tab := New("NAME", ">RATE", "NOTE")
	tab.Add("web", "50 Mbit/s", "")
	tab.Add("größe", "5 Mbit/s", "fine")
	tab.Add("日本", "1 Mbit/s")
	tab.Add("evil\x1b[31m\nname", "0", "x")
	want := `NAME                 RATE  NOTE
web             50 Mbit/s
größe            5 Mbit/s  fine
日本             1 Mbit/s
evil?[31m?name          0  x
`
	if got := tab.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPadKeepsItsWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Clean(rapid.String().Draw(t, "s"))
		width := rapid.IntRange(0, 30).Draw(t, "width")
		for _, right := range []bool{false, true} {
			if got := Pad(s, width, right); lipgloss.Width(got) != width {
				t.Errorf("Pad(%q, %d, %v) = %q, %d wide", s, width, right, got, lipgloss.Width(got))
			}
		}
	})
}

// A mark that is as wide as a letter alone has no width beside the letter that it belongs to.
func TestPadOfMarks(t *testing.T) {
	if got, want := Pad("©\u0903AAA", 3, false), "©\u0903A…"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
