// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
)

// screen is the user's output: a terminal, on which moving pictures are drawn over the
// last ones, or any other file, which gets a line a second.
type screen struct {
	out      io.Writer
	terminal bool
	width    int // of a terminal, in characters
	drawn    int // lines of the picture that can be drawn over
	styles
}

// styles use the terminal's own sixteen colours, which suit its background.
type styles struct {
	bold, faint, good, bad lipgloss.Style
	workloads              []lipgloss.Style
}

func newScreen(out io.Writer, terminal bool, width int) *screen {
	r := lipgloss.NewRenderer(out)
	colour := func(c string) lipgloss.Style { return r.NewStyle().Foreground(lipgloss.Color(c)) }
	return &screen{out: out, terminal: terminal, width: width, styles: styles{
		bold: r.NewStyle().Bold(true), faint: r.NewStyle().Faint(true),
		good: colour("2"), bad: colour("1").Bold(true),
		workloads: []lipgloss.Style{colour("4"), colour("3"), colour("2")},
	}}
}

// heading begins a part.
func (s *screen) heading(format string, args ...any) {
	fmt.Fprintf(s.out, "\n%s\n", s.bold.Render(fmt.Sprintf(format, args...)))
}

func (s *screen) line(format string, args ...any) {
	fmt.Fprintf(s.out, "  "+format+"\n", args...)
}

// command shows a command line with its output.
func (s *screen) command(line, output string) {
	fmt.Fprintf(s.out, "  %s %s\n", s.faint.Render("$"), s.bold.Render(line))
	for l := range strings.Lines(output) {
		fmt.Fprintf(s.out, "    %s\n", strings.TrimRight(l, "\n"))
	}
}

// moment holds the figures of an instant of a phase.
type moment struct {
	names    []string
	rates    []float64 // over the last second, bits per second
	promised []float64
	since    time.Duration // the phase began
	left     time.Duration // of the phase
}

// live shows a moment, on a terminal in place of the last one.
func (s *screen) live(m moment) {
	if !s.terminal {
		fmt.Fprintf(s.out, "  %s\n", plain(m))
		return
	}
	if s.drawn > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA", s.drawn)
	}
	picture := s.picture(m)
	for _, line := range picture {
		fmt.Fprintf(s.out, "%s\x1b[K\n", line)
	}
	s.drawn = len(picture)
}

// keep leaves the picture as it is; the next one is drawn below.
func (s *screen) keep() { s.drawn = 0 }

// plain returns a moment in one line.
func plain(m moment) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%3.0f s ", m.since.Seconds())
	for i, name := range m.names {
		fmt.Fprintf(&b, "  %s %5.1f", name, m.rates[i]/1e6)
	}
	return b.String() + "  Mbit/s"
}

const (
	besideBars = 41 // columns that are not bar
	longestBar = 60
)

// picture returns a moment as bars: full length is the link, the mark is the promise.
func (s *screen) picture(m moment) []string {
	width := max(10, min(longestBar, s.width-besideBars))
	var lines []string
	var sum float64
	for i, name := range m.names {
		sum += m.rates[i]
		bar := bar(m.rates[i]/float64(capacity), m.promised[i]/float64(capacity), width)
		lines = append(lines, fmt.Sprintf("  %-8s %s %5.1f Mbit/s  promised %5.1f",
			name, s.workloads[i%len(s.workloads)].Render(bar), m.rates[i]/1e6, m.promised[i]/1e6))
	}
	return append(lines, s.faint.Render(fmt.Sprintf("  %-8s %s %5.1f Mbit/s  %4.0f s left",
		"link", bar(sum/float64(capacity), 1, width), sum/1e6, math.Ceil(m.left.Seconds()))))
}

var eighths = []rune(" ▏▎▍▌▋▊▉")

// bar draws a share of 1 as a bar of at most width characters, with a mark at the end of
// the promised share.
func bar(share, promised float64, width int) string {
	n := int(math.Round(max(0, min(share, 1)) * float64(width) * 8))
	cells := make([]rune, width)
	for i := range cells {
		cells[i] = '·'
		switch {
		case i < n/8:
			cells[i] = '█'
		case i == n/8 && n%8 > 0:
			cells[i] = eighths[n%8]
		}
	}
	mark := min(int(math.Round(promised*float64(width))), width-1)
	cells[max(mark, 0)] = '┃'
	return string(cells)
}
