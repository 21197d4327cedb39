// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"weir/internal/api"
	"weir/internal/core/policy"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
	"weir/internal/face/cli/top"
)

// watch prints what weir get prints, again with each sample of the stream: weir get
// --watch. key is the only workload shown, "" = all.
func (a Commands) watch(ctx context.Context, key string, count int) error {
	return top.Lines(ctx, a.AgentClient().Stream, count, a.watchEncoder(key), a.Stdout, a.Stderr)
}

// watchEncoder makes each sample text: JSON in one line, YAML as a document of its
// own, on a terminal a page in place of the one before, and elsewhere a line for each
// workload that is new, gone or not as it was.
func (a Commands) watchEncoder(key string) func(api.Sample) ([]byte, error) {
	changes := watched{}
	return func(s api.Sample) ([]byte, error) {
		if key != "" {
			s.Workloads = slices.DeleteFunc(slices.Clone(s.Workloads), func(w api.Workload) bool { return w.Key != key })
			s.Groups = nil
		}
		switch {
		case a.Format == frame.JSON:
			b, err := json.Marshal(documentOf(s, key))
			return append(b, '\n'), err
		case a.Format == frame.YAML:
			b, err := frame.Encode(a.Format, documentOf(s, key), nil)
			return append([]byte("---\n"), b...), err
		case a.Terminal:
			width, height := screenSize()
			return []byte(inPlace(pageOf(s, key), width, height)), nil
		}
		return []byte(changes.lines(s)), nil
	}
}

// documentOf returns the document that weir get -o json prints of a sample: a list, or
// the only workload, which is null while it is gone.
func documentOf(s api.Sample, key string) any {
	switch {
	case key == "":
		return s.Workloads
	case len(s.Workloads) == 0:
		return nil
	}
	return s.Workloads[0]
}

func pageOf(s api.Sample, key string) string {
	switch {
	case key == "":
		return renderWorkloads(s.Workloads, s.Groups)
	case len(s.Workloads) == 0:
		return "it is gone\n"
	}
	return renderWorkload(s.Workloads[0])
}

// Sequences of a terminal.
const (
	cursorHome = "\x1b[H"
	clearLine  = "\x1b[K" // from the cursor on
	clearBelow = "\x1b[J"
)

// inPlace writes a page over the one before, cut to the screen so that it does not
// scroll: the last line says how many are missing.
func inPlace(page string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(table.CleanLines(page), "\n"), "\n")
	if room := height - 1; height > 1 && len(lines) > room {
		more := len(lines) - room + 1
		lines = append(lines[:room-1:room-1], fmt.Sprintf("... and %d more lines", more))
	}
	var b strings.Builder
	b.WriteString(cursorHome)
	for _, line := range lines {
		if width > 0 {
			line = strings.TrimRight(table.Pad(line, width, false), " ")
		}
		b.WriteString(line + clearLine + "\r\n")
	}
	return b.String() + clearBelow
}

// screenSize returns how many columns and lines the terminal has, 0 if it does not say.
func screenSize() (width, height int) {
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

// watched remembers the line of each workload and group, by key, in order not to
// repeat one that has not changed.
type watched map[string]string

// lines returns the lines that differ from the sample before: of a workload or group that
// is new, whose policy, state or note has changed, or that is gone. A changed rate is no
// change; weir top shows rates.
func (seen watched) lines(s api.Sample) string {
	var b strings.Builder
	at := s.At.Local().Format("15:04:05")
	now := map[string]bool{}
	say := func(key, text string) {
		now[key] = true
		if seen[key] != text {
			seen[key] = text
			fmt.Fprintf(&b, "%s  %s\n", at, table.Clean(text))
		}
	}
	for _, w := range s.Workloads {
		say("workload "+w.Key, watchLine(w.Name, w.Kind, w.State, w.Note, w.Policy))
	}
	for _, g := range s.Groups {
		say("group "+g.Name, watchLine(g.Name, "group", g.State, g.Note, api.PolicyOf(g.Policy.Policy)))
	}
	for key, text := range seen {
		if !now[key] {
			delete(seen, key)
			name, _, _ := strings.Cut(text, ": ")
			fmt.Fprintf(&b, "%s  %s: gone\n", at, table.Clean(name))
		}
	}
	return b.String()
}

// watchLine returns a workload or group as "web: docker, active, weight 3, min 20
// Mbit/s".
func watchLine(name, kind, state, note string, p api.Policy) string {
	words := []string{kind, human.WithNote(state, note)}
	for _, f := range shownFields(p.Policy, policy.OnWorkload) {
		if f.name == "weight" || !f.atDefault {
			words = append(words, f.name+" "+f.value)
		}
	}
	if len(p.Queues) > 0 {
		words = append(words, fmt.Sprintf("queues: %d", len(p.Queues)))
	}
	return name + ": " + strings.Join(words, ", ")
}
