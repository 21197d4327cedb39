// SPDX-License-Identifier: Apache-2.0

package top

import (
	"io"

	"github.com/charmbracelet/lipgloss"
)

// theme colours text. It uses only the terminal's own sixteen colours, bold,
// faint and reverse, because those suit whatever background the user has.
// NO_COLOR takes all of it away; the selected row then still has its marker.
type theme struct {
	moods                          map[mood]lipgloss.Style
	title, header, spark, selected lipgloss.Style
}

// newTheme makes the theme for the colours of the terminal behind out.
func newTheme(out io.Writer) theme { return themeOf(lipgloss.NewRenderer(out)) }

func themeOf(r *lipgloss.Renderer) theme {
	colour := func(c string) lipgloss.Style { return r.NewStyle().Foreground(lipgloss.Color(c)) }
	return theme{
		moods: map[mood]lipgloss.Style{
			plain: r.NewStyle(),
			good:  colour("2"),
			warn:  colour("3").Bold(true),
			bad:   colour("1").Bold(true),
			dim:   r.NewStyle().Faint(true),
		},
		title:    r.NewStyle().Bold(true),
		header:   r.NewStyle().Faint(true),
		spark:    colour("6"),
		selected: r.NewStyle().Reverse(true),
	}
}

func (t theme) mood(m mood, s string) string { return t.moods[m].Render(s) }
