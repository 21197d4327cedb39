// SPDX-License-Identifier: Apache-2.0

package clustercmd

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/core/wire"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
)

// Moves makes weir moves.
func (a Commands) Moves() *cobra.Command {
	c := a.Printing(&cobra.Command{
		Use:   "moves [ID]",
		Short: "Show moves under way and those that ended lately",
		Long: `Show the cluster's moves, the newest first, or one of them with its steps: how many
bytes each has sent and how long it took. ID may be a prefix.`,
		Example: `  weir moves
  weir moves m-20260301-120000-k3x`,
		Args: frame.Names("[ID]"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				m, err := a.ManagerClient().Move(c.Context(), args[0])
				if err != nil {
					return err
				}
				return a.Print(m, func() string { return renderMove(m) })
			}
			list, err := a.ManagerClient().Moves(c.Context())
			if err != nil {
				return err
			}
			return a.Print(list, func() string { return renderMoves(list, time.Now()) })
		},
	})
	a.ManagerSocketFlag(c)
	c.AddCommand(a.movesCancelCommand())
	return c
}

func (a Commands) movesCancelCommand() *cobra.Command {
	var dryRun bool
	c := a.Printing(&cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a move",
		Long: `Cancel a move. One that waits ends at once. One under way goes back to its source; once
the target was told to keep its copy, it is too late, and the move goes on. Where the
source is not heard of, the move ends in the manager's books and no longer counts
against the moves at once; the source's own report of its end still counts later. ID may
be a prefix.`,
		Example: `  weir moves cancel m-20260301-120000-k3x
  weir moves cancel m-20260301-120000-k3x --dry-run`,
		Args: frame.Names("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			done, err := a.ManagerClient().CancelMove(c.Context(), args[0], dryRun)
			if err != nil {
				return err
			}
			return a.Print(done, func() string { return renderCancellation(done) })
		},
	})
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show the effect and change nothing")
	a.ManagerSocketFlag(c)
	return c
}

func renderCancellation(done api.Cancellation) string {
	text := fmt.Sprintf("move %s of %s: %s: %s\n", done.Move.ID, done.Move.Container, done.Effect, done.Text)
	if done.DryRun {
		text = "dry run, nothing was done: " + text
	}
	return text
}

func renderMoves(list []api.Move, now time.Time) string {
	if len(list) == 0 {
		return "no moves\n"
	}
	t := table.New("MOVE", "CONTAINER", "FROM", "TO", "STATE", "STEP", ">BYTES", ">DOWN", ">AGE", "WHY")
	for _, m := range list {
		t.Add(m.ID, m.Container, m.From, m.To, human.WithNote(string(m.State), m.Error), m.Step, human.Size(m.Bytes), downtime(m), human.Age(now.Sub(m.Created)), cmp.Or(m.Guarantee, m.Why))
	}
	return t.String()
}

func downtime(m api.Move) string {
	if m.DownMS == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f s", m.DownMS/1e3)
}

func renderMove(m api.Move) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s from %s to %s: %s\n", m.ID, m.Container, m.From, m.To, human.WithNote(string(m.State), m.Error))
	if m.Why != "" {
		fmt.Fprintf(&b, "why   %s\n", m.Why)
	}
	if m.Guarantee != "" {
		fmt.Fprintf(&b, "for   %s\n", m.Guarantee)
	}
	if m.Cancel != "" {
		fmt.Fprintf(&b, "cancel  %s\n", m.Cancel)
	}
	if m.DownMS > 0 {
		fmt.Fprintf(&b, "down  %s\n", downtime(m))
	}
	if len(m.Steps) > 0 {
		t := table.New("STEP", ">BYTES", ">TIME", "NOTE")
		for _, s := range m.Steps {
			bytes := "-"
			if s.Bytes > 0 {
				bytes = human.Size(s.Bytes)
			}
			t.Add(s.Step, bytes, fmt.Sprintf("%.0f ms", s.DurationMS), s.Error)
		}
		b.WriteString("\n" + t.String())
	}
	return b.String()
}

// showSteps prints steps of a move that have not been shown, up to a number, and
// returns how many have been.
func (a Commands) showSteps(mv api.Move, shown, until int) int {
	for ; a.Format == frame.Table && shown < until; shown++ {
		s := mv.Steps[shown]
		bytes := "-"
		if s.Bytes > 0 {
			bytes = human.Size(s.Bytes)
		}
		fmt.Fprint(a.Stdout, table.Clean(strings.TrimRight(fmt.Sprintf("%-18s %10s %6.2f s  %s", s.Step, bytes, s.DurationMS/1e3, s.Error), " "))+"\n")
	}
	return shown
}

// renderMoved returns the result of a move whose steps have been shown.
func renderMoved(m api.Move) string {
	switch {
	case m.State != wire.MoveDone:
		return "" // the error says it
	case m.DryRun && m.Error != "":
		return fmt.Sprintf("dry run, nothing is touched; %s can move from %s to %s: %s\n", m.Container, m.From, m.To, m.Error)
	case m.DryRun:
		return fmt.Sprintf("dry run, nothing is touched; %s can move from %s to %s\n", m.Container, m.From, m.To)
	}
	text := fmt.Sprintf("%s runs on %s: down for %s, %s sent (%s)\n", m.Container, m.To, downtime(m), human.Size(m.Bytes), m.ID)
	if m.Error != "" {
		text += "warning: " + m.Error + "\n"
	}
	return text
}
