// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"

	"weir/internal/api"
	"weir/internal/face/cli/table"
)

// screen is everything that the picture depends on.
type screen struct {
	state         *state
	width, height int
	sort          order
	selected      rowID
	offset        int // rows scrolled away at the top
	paused        bool
	lost          string // why there are no new samples, "" while there are
	explaining    string // text of the pane, "" if it is closed
	location      *time.Location
	theme         theme
}

// render returns the picture: at most height lines of at most width characters.
func (s screen) render() string {
	lines := []string{s.titleLine()}
	body, _ := s.visible(s.bodyHeight())
	body = append(body, s.below(s.bodyHeight()-len(body))...)
	lines = append(lines, body...)
	for range s.bodyHeight() - len(body) {
		lines = append(lines, "")
	}
	lines = append(lines, s.pane()...)
	lines = append(lines, s.footer())
	return strings.Join(lines[:min(len(lines), max(s.height, 1))], "\n")
}

func (s screen) titleLine() string {
	text := "weir top"
	if at := s.state.at(); !at.IsZero() {
		text += "  " + at.In(s.location).Format("15:04:05")
	}
	if s.paused {
		text += "  paused"
	}
	if s.lost != "" {
		return s.theme.mood(warn, s.cut(text+"  "+s.lost))
	}
	return s.theme.title.Render(s.cut(text))
}

func (s screen) footer() string {
	long := fmt.Sprintf("q quit  s sort (%s)  p pause  ↑↓ select  enter explain", s.sort.name)
	if s.explaining != "" {
		long = "esc close  q quit"
	}
	return s.theme.header.Render(s.cut(long))
}

// visible returns the lines of the links with their rows from the offset on, as far as
// they fit into height, and the number of rows that they show. The header of the first
// visible row's link is always there.
func (s screen) visible(height int) (lines []string, shown int) {
	if s.state.at().IsZero() {
		return []string{s.cut("waiting for the first sample")}[:min(1, height)], 0
	}
	height -= min(len(s.state.troubled()), height/4) // a full screen of rows does not hide them
	skip := s.offset
	for _, l := range s.state.sample.Links {
		rows := s.state.rows(api.LinkName(l.Device, l.Direction), s.sort)
		if skip >= len(rows) && len(rows) > 0 {
			skip -= len(rows)
			continue
		}
		lay := fit(s.width, longestName(rows), columnsFor(rows))
		head := []string{s.linkLine(l), s.columnLine(lay)}
		if len(rows) == 0 {
			head[1] = s.theme.mood(dim, s.cut("  no workloads"))
		}
		if len(lines)+len(head) > height {
			break
		}
		lines = append(lines, head...)
		ceiling := ceilingOf(rows)
		for _, r := range rows[skip:] {
			if len(lines) >= height {
				return lines, shown
			}
			lines = append(lines, s.rowLine(r, lay, unitFor(l.CapacityBps), ceiling))
			shown++
		}
		skip = 0
	}
	return lines, shown
}

// below returns the notes in a number of lines.
func (s screen) below(height int) []string {
	notes := s.notes()
	if more := len(notes) - height; more > 0 && height > 0 {
		last := fmt.Sprintf("  and %d more not active or not as asked for; see weir get, weir status", more+1)
		if height == 1 {
			last = fmt.Sprintf("  %d are not active or not as asked for; see weir get, weir status", more+1)
		}
		notes = append(notes[:height-1], s.theme.mood(warn, s.cut(last)))
	}
	return notes[:min(len(notes), max(height, 0))]
}

// linkLine returns a link in one line; what does not fit is left out from the right.
func (s screen) linkLine(l api.LinkStatus) string {
	name := table.Clean(l.Device) + " " + directionName(l.Direction)
	if l.Error != "" {
		return s.theme.mood(bad, s.cut(name+"  not steered: "+table.Clean(l.Error)))
	}
	u := unitFor(l.CapacityBps)
	used := 0.0
	if l.CapacityBps > 0 {
		used = l.RateBps / float64(l.CapacityBps)
	}
	rate, capacity := u.text(l.RateBps), u.text(float64(l.CapacityBps))
	text := s.fitting(name,
		fmt.Sprintf("  %s of %s %s, %.0f %%", rate, capacity, u.name, used*100),
		fmt.Sprintf("  %s/%s %s", rate, capacity, u.name))
	text += s.fitting(name+text, fmt.Sprintf("  reserved %s, free %s", u.text(float64(l.ReservedBps)), u.text(float64(l.FreeBps))))
	text += s.fitting(name+text, fmt.Sprintf("  %s on %s", l.Scheduler, l.Backend))
	if room := s.width - lipgloss.Width(name+text) - gap; room >= 10 {
		return s.theme.title.Render(name) + "  " + s.theme.mood(good, bar(used, min(room, 20))) + text
	}
	return s.theme.title.Render(s.cut(name + text))
}

// directionName returns the words that the view shows for a direction.
func directionName(direction string) string {
	if direction == "ingress" {
		return "ingress (download)"
	}
	return "egress (upload)"
}

// fitting returns the first of the texts that fits behind the text there, or "".
func (s screen) fitting(there string, texts ...string) string {
	for _, text := range texts {
		if lipgloss.Width(there+text) <= s.width {
			return text
		}
	}
	return ""
}

// bar returns a share, 0 to 1, as a bar.
func bar(share float64, width int) string {
	full := min(max(int(share*float64(width)+0.5), 0), width)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

func (s screen) columnLine(lay layout) string {
	line := strings.Repeat(" ", marker) + table.Pad("WORKLOAD", lay.name, false)
	for _, c := range lay.columns {
		line += strings.Repeat(" ", gap) + table.Pad(c.title, c.width, true)
	}
	if lay.spark > 0 {
		line += strings.Repeat(" ", gap) + "LAST 60 s"
	}
	return s.theme.header.Render(s.cut(line))
}

func (s screen) rowLine(r row, lay layout, u unit, ceiling float64) string {
	selected := r.id == s.selected
	tooNarrow := lay.width() > s.width
	paint := func(style lipgloss.Style, text string) string {
		if selected || tooNarrow { // the whole line is reversed, or cut, as plain text
			return text
		}
		return style.Render(text)
	}
	line := "  "
	if selected {
		line = "> "
	}
	name := table.Pad(table.Clean(r.name()), lay.name, false)
	if troubled(r.workload) {
		name = paint(s.theme.moods[warn], name)
	}
	line += name
	for _, c := range lay.columns {
		m := plain
		if c.mood != nil {
			m = c.mood(r)
		}
		line += strings.Repeat(" ", gap) + paint(s.theme.moods[m], table.Pad(c.cell(r, u), c.width, true))
	}
	if lay.spark > 0 {
		line += strings.Repeat(" ", gap) + paint(s.theme.spark, spark(r.history, lay.spark, ceiling))
	}
	if tooNarrow {
		line = s.cut(line)
	}
	if selected {
		return s.theme.selected.Render(line)
	}
	return line
}

// notes returns a line for each workload or group that lacks a part of its policy, then
// one with its reason for each that is on no link.
func (s screen) notes() []string {
	var lines []string
	for _, l := range s.state.sample.Links {
		for _, g := range l.NotHeld {
			lines = append(lines, s.theme.mood(warn, s.cut(table.Clean("  "+l.Device+": "+g.Sentence()))))
		}
	}
	for _, w := range s.state.troubled() {
		lines = append(lines, s.theme.mood(warn, s.cut(table.Clean("  "+w.Name+" is "+w.State+": "+w.Note))))
	}
	for _, w := range s.state.linkless() {
		text := "  " + w.Name + " is " + w.State
		if w.Note != "" {
			text += ": " + w.Note
		}
		lines = append(lines, s.theme.mood(dim, s.cut(table.Clean(text))))
	}
	return lines
}

// pane returns the explanation, in at most half of the screen.
func (s screen) pane() []string {
	if s.explaining == "" {
		return nil
	}
	lines := []string{s.theme.header.Render(strings.Repeat("─", max(s.width, 0)))}
	for text := range strings.Lines(s.explaining) {
		lines = append(lines, wrap(strings.TrimRight(text, "\n"), s.width)...)
	}
	return lines[:min(len(lines), s.height/2)]
}

// wrap breaks a line at spaces; what follows is indented as the line was.
func wrap(line string, width int) []string {
	if lipgloss.Width(line) <= width {
		return []string{line}
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	var out []string
	current := indent
	for _, word := range strings.Fields(line) {
		if strings.TrimSpace(current) == "" {
			current += word
		} else if lipgloss.Width(current+" "+word) <= width {
			current += " " + word
		} else {
			out = append(out, current)
			current = indent + word
		}
	}
	out = append(out, current)
	for i, l := range out {
		if lipgloss.Width(l) > width {
			out[i] = table.Pad(l, width, false)
		}
	}
	return out
}

func longestName(rows []row) int {
	longest := 0
	for _, r := range rows {
		longest = max(longest, lipgloss.Width(table.Clean(r.name())))
	}
	return longest
}

// cut keeps a line within the screen.
func (s screen) cut(text string) string {
	if lipgloss.Width(text) <= s.width {
		return text
	}
	return table.Pad(text, s.width, false)
}
