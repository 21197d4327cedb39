// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/core/event"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/table"
	"weir/internal/face/cli/top"
)

// Events makes weir events.
func (a Commands) Events() *cobra.Command {
	var watch, open bool
	var since uint64
	c := a.Printing(&cobra.Command{
		Use:   "events [NAME]",
		Short: "Show what an operator should know: refused mins, used up quotas, lost links",
		Long: `Show what began and ended of late that an operator should know of: a min that does not
fit, a quota that is used up, packets that are dropped, a link that is gone. With NAME, what is
about that workload, group, link or source. Each condition has one event when it begins and one
when it is over; docs/events.md lists the kinds, and how a webhook or a command is told.

--open shows what is not over, with what to do about it. --watch goes on, a line for each event
from now on.`,
		Example: `  weir events
  weir events --open
  weir events web -o json
  weir events --watch -o json | jq -r .text`,
		Args:              frame.Names("[NAME]"),
		ValidArgsFunction: a.CompleteWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			wanted := func(e event.Event) bool { return len(args) == 0 || e.Subject.Name == args[0] }
			if watch {
				if open || since > 0 {
					return frame.Usagef("--watch is of what happens from now on; leave --open and --since out")
				}
				return a.watchEvents(c.Context(), wanted)
			}
			all, err := a.AgentClient().Events(c.Context(), api.EventQuery{Since: since})
			if err != nil {
				return err
			}
			all.Open, all.Recent = only(all.Open, wanted), only(all.Recent, wanted)
			unknown := ""
			if a.Format == frame.Table && len(args) > 0 && len(all.Open)+len(all.Recent) == 0 {
				if unknown, err = a.nobody(c.Context(), args[0], true); err != nil {
					return err
				}
			}
			if open {
				return a.Print(all.Open, func() string { return renderOpen(all.Open, time.Local) + unknown })
			}
			return a.Print(all, func() string { return renderEvents(all, time.Local) + unknown })
		},
	})
	c.Flags().BoolVarP(&watch, "watch", "w", false, "go on, and print each event when it happens")
	c.Flags().BoolVar(&open, "open", false, "only what is not over, with what to do")
	c.Flags().Uint64Var(&since, "since", 0, "only events after the one with this `ID`")
	return c
}

// only returns the wanted events, as a list that is not nil.
func only(list []event.Event, wanted func(event.Event) bool) []event.Event {
	return append([]event.Event{}, slices.DeleteFunc(list, func(e event.Event) bool { return !wanted(e) })...)
}

// watchEvents prints each wanted event of the stream.
func (a Commands) watchEvents(ctx context.Context, wanted func(event.Event) bool) error {
	return top.Lines(ctx, a.AgentClient().Stream, 0, func(s api.Sample) ([]byte, error) {
		var text []byte
		for _, e := range only(s.Events, wanted) {
			line, err := a.eventLine(e)
			if err != nil {
				return nil, err
			}
			text = append(text, line...)
		}
		return text, nil
	}, a.Stdout, a.Stderr)
}

// eventLine returns an event as --watch prints it.
func (a Commands) eventLine(e event.Event) ([]byte, error) {
	switch a.Format {
	case frame.JSON:
		line, err := json.Marshal(e)
		return append(line, '\n'), err
	case frame.YAML:
		text, err := frame.Encode(a.Format, e, nil)
		return append([]byte("---\n"), text...), err
	}
	line := e.At.Local().Format(time.TimeOnly) + "  " + e.Kind + "  " + e.State + "  " + e.Text
	if e.Remedy != "" {
		line += "; " + e.Remedy
	}
	return []byte(table.Clean(line) + "\n"), nil
}

func renderEvents(all api.Events, zone *time.Location) string {
	if len(all.Recent) == 0 {
		return "nothing has happened that an operator should know of\n"
	}
	t := table.New(">ID", "TIME", "KIND", "STATE", "WHAT")
	for _, e := range all.Recent {
		state := e.State
		if slices.ContainsFunc(all.Open, func(open event.Event) bool { return open.ID == e.ID }) {
			state = "open"
		}
		if e.State == event.End {
			state = "end, after " + e.At.Sub(e.Began).Round(time.Second).String()
		}
		t.Add(strconv.FormatUint(e.ID, 10), e.At.In(zone).Format(time.DateTime), e.Kind, state, e.Text)
	}
	return t.String()
}

func renderOpen(open []event.Event, zone *time.Location) string {
	if len(open) == 0 {
		return "nothing is open\n"
	}
	var b strings.Builder
	for _, e := range open {
		b.WriteString(e.At.In(zone).Format(time.DateTime) + "  " + e.Kind + "\n  " + e.Text + "\n  what to do: " + e.Remedy + "\n")
	}
	return table.CleanLines(b.String())
}
