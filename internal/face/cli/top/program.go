// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"weir/internal/api"
	"weir/internal/core/workload"
)

// Explain returns the text of the pane that enter opens.
type Explain func(ctx context.Context, name string, group bool) (string, error)

// Screen shows the live view on a terminal until the user quits or ctx ends.
func Screen(ctx context.Context, stream Stream, explain Explain, in *os.File, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The first sample is awaited before the screen is taken, so that an agent
	// that cannot be reached gives an ordinary error on an ordinary terminal.
	first := make(chan api.Sample, 1)
	samples := make(chan tea.Msg, 8)
	ended := make(chan error, 1)
	go func() {
		ended <- follow(ctx, stream, func(s api.Sample) error {
			select {
			case first <- s:
			default:
			}
			return deliver(ctx, samples, sampleMsg{s})
		}, func(err error) { _ = deliver(ctx, samples, lostMsg{err}) })
	}()
	select {
	case err := <-ended:
		return err
	case <-first:
	}
	program := tea.NewProgram(newModel(ctx, explain, samples, newTheme(out)),
		tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen(), tea.WithoutSignalHandler())
	_, err := program.Run()
	cancel()
	<-ended
	if errors.Is(err, tea.ErrProgramKilled) && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func deliver(ctx context.Context, to chan<- tea.Msg, m tea.Msg) error {
	select {
	case to <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Messages to the model.
type (
	sampleMsg    struct{ sample api.Sample }
	lostMsg      struct{ err error }
	explainedMsg struct {
		workload, text string
		err            error
	}
)

// model is the program's state; everything that is seen is in screen.
type model struct {
	ctx     context.Context
	explain Explain
	samples <-chan tea.Msg
	live    *state // goes on while the screen is paused
	screen  screen
	order   int
	subject string // workload or group in the pane, "" if it is closed
	group   bool   // it is a group
}

func newModel(ctx context.Context, explain Explain, samples <-chan tea.Msg, th theme) model {
	live := &state{}
	return model{
		ctx: ctx, explain: explain, samples: samples, live: live,
		screen: screen{state: live, width: 80, height: 24, sort: orders[0], location: time.Local, theme: th},
	}
}

// Init implements tea.Model.
func (m model) Init() tea.Cmd { return m.next }

// next waits for the next message of the stream.
func (m model) next() tea.Msg {
	select {
	case msg := <-m.samples:
		return msg
	case <-m.ctx.Done():
		return nil
	}
}

// Update implements tea.Model.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.screen.width, m.screen.height = msg.Width, msg.Height
	case sampleMsg:
		cmd = m.sample(msg.sample)
	case lostMsg:
		m.screen.lost = "the agent is gone; waiting for it to come back"
		cmd = m.next
	case explainedMsg:
		m.explained(msg)
	case tea.KeyMsg:
		cmd = m.key(msg.String())
	}
	m.scroll()
	return m, cmd
}

// View implements tea.Model.
func (m model) View() string { return m.screen.render() }

// sample feeds the state; a paused screen keeps what it shows.
func (m *model) sample(s api.Sample) tea.Cmd {
	next := *m.live
	next.add(s) // builds new maps: what a paused screen shows stays as it is
	m.live = &next
	m.screen.lost = ""
	if m.screen.paused {
		return m.next
	}
	m.screen.state = m.live
	return tea.Batch(m.next, m.ask())
}

// ask fetches the explanation anew, so that the pane follows the traffic.
func (m *model) ask() tea.Cmd {
	if m.subject == "" {
		return nil
	}
	ctx, explain, subject, group := m.ctx, m.explain, m.subject, m.group
	return func() tea.Msg {
		text, err := explain(ctx, subject, group)
		return explainedMsg{subject, text, err}
	}
}

func (m *model) explained(msg explainedMsg) {
	if msg.workload != m.subject {
		return // closed, or another one was chosen meanwhile
	}
	m.screen.explaining = msg.text
	if msg.err != nil {
		m.screen.explaining = msg.workload + ": " + msg.err.Error()
	}
}

func (m *model) key(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "s":
		m.order = (m.order + 1) % len(orders)
		m.screen.sort = orders[m.order]
	case "p", " ":
		m.screen.paused = !m.screen.paused
		m.screen.state = m.live
	case "up", "k":
		return m.move(-1)
	case "down", "j":
		return m.move(1)
	case "pgup":
		return m.move(-m.page())
	case "pgdown":
		return m.move(m.page())
	case "home", "g":
		return m.move(-len(m.screen.rows()))
	case "end", "G":
		return m.move(len(m.screen.rows()))
	case "esc":
		m.subject, m.screen.explaining = "", ""
	case "enter", "e":
		if m.subject != "" {
			m.subject, m.screen.explaining = "", ""
			return nil
		}
		return m.open()
	}
	return nil
}

// open shows the pane for the selected workload.
func (m *model) open() tea.Cmd {
	rows := m.screen.rows()
	i := m.screen.selectedIndex()
	if i < 0 {
		return nil
	}
	m.subject, m.group = rows[i].workload.Name, rows[i].workload.Kind == workload.KindGroup
	m.screen.explaining = "asking why " + m.subject + " has its rate"
	return m.ask()
}

// move changes the selection, and the pane with it if it is open.
func (m *model) move(by int) tea.Cmd {
	rows := m.screen.rows()
	if len(rows) == 0 {
		return nil
	}
	i := min(max(m.screen.selectedIndex()+by, 0), len(rows)-1)
	m.screen.selected = rows[i].id
	if m.subject == "" || m.subject == rows[i].workload.Name {
		return nil
	}
	return m.open()
}

func (m *model) page() int {
	_, shown := m.screen.visible(m.screen.bodyHeight())
	return max(shown-1, 1)
}

// scroll keeps the selection on a row that exists, and that row on the screen.
func (m *model) scroll() {
	rows := m.screen.rows()
	if len(rows) == 0 {
		return
	}
	i := m.screen.selectedIndex()
	if i < 0 {
		i = min(m.screen.offset, len(rows)-1)
		m.screen.selected = rows[i].id
	}
	m.screen.offset = min(m.screen.offset, i)
	m.screen.offset = max(m.screen.offset, i-m.screen.bodyHeight()) // a long way at once, the rest by steps
	for m.screen.offset < i {
		_, shown := m.screen.visible(m.screen.bodyHeight())
		if i < m.screen.offset+shown {
			break
		}
		m.screen.offset++
	}
}

func (s screen) rows() []row { return s.state.allRows(s.sort) }

// bodyHeight returns how many lines the links have.
func (s screen) bodyHeight() int { return max(s.height-2-len(s.pane()), 0) }

// selectedIndex returns the place of the selected row, -1 if there is none.
func (s screen) selectedIndex() int {
	return slices.IndexFunc(s.rows(), func(r row) bool { return r.id == s.selected })
}
