// SPDX-License-Identifier: Apache-2.0

package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/cluster/optimize"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
)

// Nodes makes weir nodes.
func (a Commands) Nodes() *cobra.Command {
	c := a.Printing(&cobra.Command{
		Use:   "nodes",
		Short: "Show the cluster's nodes and the free part of each",
		Long: `Show the nodes of the cluster: whether they send heartbeats, what they have and how much
of it is used. FREE MIN is the rate that mins may still take of a node's link, egress
(upload).`,
		Example: `  weir nodes
  weir nodes -o json | jq '.[] | select(.state != "up").name'`,
		Args: frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := a.ManagerClient().Nodes(c.Context())
			if err != nil {
				return err
			}
			return a.Print(list, func() string { return renderNodes(list, time.Now()) })
		},
	})
	a.ManagerSocketFlag(c)
	return c
}

func renderNodes(list []api.Node, now time.Time) string {
	if len(list) == 0 {
		return "no node has joined; weir manager token create prints a token for one\n"
	}
	t := table.New("NODE", "STATE", ">CONTAINERS", ">CPU", ">MEMORY", ">SENT", ">RESERVED", ">FREE MIN", ">CERTIFICATE", "MIGRATES BY")
	for _, n := range list {
		state := string(n.State)
		if n.State == api.NodeLost {
			state = "lost for " + human.Age(now.Sub(n.Heard))
		}
		cpu, memory := "-", "-"
		if n.CPUCapacity > 0 {
			cpu = fmt.Sprintf("%.2f of %g", n.CPUCores, n.CPUCapacity)
			memory = human.Size(n.MemoryBytes) + " of " + human.Size(n.MemoryTotal)
		}
		by := "-"
		if n.CRIU != "" {
			by = strings.Join(append([]string{}, n.Engines...), ", ") + ", criu " + n.CRIU
		}
		t.Add(n.Name, state, strconv.Itoa(n.Containers), cpu, memory, human.Measured(n.TransmitBps), human.Measured(float64(n.ReservedBps)),
			human.Measured(float64(n.GuaranteedBps-min(n.ReservedBps, n.GuaranteedBps))), certificateText(n.CertificateEnds, now), by)
	}
	text := t.String()
	for _, n := range list {
		if n.Trouble != "" {
			text += fmt.Sprintf("%s is not planned with: %s\n", n.Name, n.Trouble)
		}
	}
	return text
}

// Ps makes weir ps.
func (a Commands) Ps() *cobra.Command {
	var node string
	c := a.Printing(&cobra.Command{
		Use:   "ps",
		Short: "List the containers of the whole cluster",
		Long: `List the containers of all nodes with their use and their mins. Rates are egress
(upload).`,
		Example: `  weir ps
  weir ps --node b`,
		Args: frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := a.ManagerClient().Containers(c.Context())
			if err != nil {
				return err
			}
			if node != "" {
				kept := []api.ClusterContainer{}
				for _, k := range list {
					if k.Node == node {
						kept = append(kept, k)
					}
				}
				list = kept
			}
			return a.Print(list, func() string { return renderContainers(list) })
		},
	})
	c.Flags().StringVar(&node, "node", "", "only those on `NODE`")
	a.ManagerSocketFlag(c)
	return c
}

func renderContainers(list []api.ClusterContainer) string {
	if len(list) == 0 {
		return "no containers are known\n"
	}
	t := table.New("CONTAINER", "NODE", "IMAGE", ">CPU", ">MEMORY", ">SENT", ">WEIGHT", ">MIN", ">MAX", "NOTE")
	for _, k := range list {
		var notes []string
		if k.RefusedMinBps > 0 {
			notes = append(notes, "min of "+human.Limit(k.RefusedMinBps)+" refused")
		}
		if k.Pinned {
			notes = append(notes, "pinned")
		}
		if k.Move != "" {
			notes = append(notes, "moving ("+k.Move+")")
		}
		weight := "-"
		if k.Weight > 0 {
			weight = strconv.FormatUint(uint64(k.Weight), 10)
		}
		t.Add(k.Name, k.Node, k.Image, fmt.Sprintf("%.2f", k.CPUCores), human.Size(k.MemoryBytes), human.Measured(k.TransmitBps), weight,
			human.Limit(k.MinBps), human.Limit(k.MaxBps), strings.Join(notes, ", "))
	}
	return t.String()
}

// algorithms that a plan may be made by.
var algorithms = []string{"local", "genetic", "genetic-seeded"}

// planFlags adds the flags of weir plan and weir rebalance.
func planFlags(c *cobra.Command, req *api.PlanRequest) (read func() error) {
	var alpha, above float64
	fs := c.Flags()
	fs.IntVar(&req.MaxMoves, "max-moves", 0, "at most `N` moves (default no limit)")
	fs.StringVar(&req.Algorithm, "algorithm", "", "`NAME`: local (default), genetic, the paper's, or genetic-seeded, which begins at the present placement")
	fs.StringVar(&req.Measure, "measure", "", "`NAME` of the measure of a node's utilisation: load (default), the sum over its containers, or mean, the paper's")
	fs.Float64Var(&alpha, "alpha", optimize.DefaultAlpha, "how much evenness counts against the cost of moves, `0 to 1`")
	fs.Float64Var(&above, "above", optimize.DefaultAbove, "move only from nodes that use more than this part of a resource, `0 to 1`; 0 evens out all nodes")
	frame.CompleteFlags(c, map[string][]string{"algorithm": algorithms, "measure": {"load", "mean"}})
	return func() error {
		for _, f := range []struct {
			flag, value string
			words       []string
		}{{"algorithm", req.Algorithm, algorithms}, {"measure", req.Measure, []string{"load", "mean"}}} {
			if f.value != "" && !slices.Contains(f.words, f.value) {
				return frame.Usagef("--%s %q: not known; write %s", f.flag, f.value, strings.Join(f.words, " or "))
			}
		}
		if req.MaxMoves < 0 {
			return frame.Usagef("--max-moves %d: write 1 or more, or 0 for no limit", req.MaxMoves)
		}
		if !(alpha >= 0 && alpha <= 1) {
			return frame.Usagef("--alpha %v: out of range; write a number from 0 to 1", alpha)
		}
		if !(above >= 0 && above <= 1) {
			return frame.Usagef("--above %v: out of range; write a number from 0 to 1", above)
		}
		if c.Flags().Changed("above") {
			req.Above = &above
		}
		if c.Flags().Changed("alpha") {
			req.Alpha = &alpha
		}
		return nil
	}
}

// Plan makes weir plan.
func (a Commands) Plan() *cobra.Command {
	var req api.PlanRequest
	var read func() error
	c := a.Printing(&cobra.Command{
		Use:   "plan",
		Short: "Say which containers should move, and why; nothing is moved",
		Long: `Say which containers should move to another node, why, and the state of the cluster
afterwards: S, the variance of the nodes' utilisation (less is more even), the load
of each node, and the largest min that one node could still take. Containers are moved
from nodes that use more than a part of their CPU, memory or network (--above, or
manager.automatic.above in weir.yaml), or that have promised more than they can hold.`,
		Example: `  weir plan
  weir plan --max-moves 3 -o json`,
		Args: frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := read(); err != nil {
				return err
			}
			p, err := a.ManagerClient().Plan(c.Context(), req)
			if err != nil {
				return err
			}
			return a.Print(p, func() string { return renderPlan(p) })
		},
	})
	read = planFlags(c, &req)
	a.ManagerSocketFlag(c)
	return c
}

// Rebalance makes weir rebalance.
func (a Commands) Rebalance() *cobra.Command {
	var req api.PlanRequest
	var read func() error
	var apply, wait bool
	c := a.Printing(&cobra.Command{
		Use:   "rebalance",
		Short: "Move containers so that the nodes are evenly loaded",
		Long: `Plan as weir plan does and, with --apply, order the moves. They are made one after the
other as far as one makes room for another; weir moves shows how far they are, and
--wait waits until all have ended, with exit code 1 if one did not arrive.`,
		Example: `  weir rebalance
  weir rebalance --apply --max-moves 5`,
		Args: frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := read(); err != nil {
				return err
			}
			if wait && !apply {
				return frame.Usagef("--wait: nothing is moved without --apply; write both")
			}
			do := a.ManagerClient().Plan
			if apply {
				do = a.ManagerClient().Rebalance
			}
			p, err := do(c.Context(), req)
			if err != nil {
				return err
			}
			err = a.Print(p, func() string {
				text := renderPlan(p)
				if !p.Applied && len(p.Moves) > 0 {
					text += "\nnothing is moved; weir rebalance --apply does it\n"
				}
				return text
			})
			if err != nil || !wait {
				return err
			}
			return a.awaitMoves(c.Context(), p)
		},
	})
	read = planFlags(c, &req)
	c.Flags().BoolVar(&apply, "apply", false, "order the moves")
	c.Flags().BoolVar(&wait, "wait", false, "wait until the moves have ended")
	a.ManagerSocketFlag(c)
	return c
}

// awaitMoves waits for the ends of a plan's moves and tells them.
func (a Commands) awaitMoves(ctx context.Context, p api.ClusterPlan) error {
	var failed error
	for _, m := range p.Moves {
		mv, err := a.ended(ctx, m.ID)
		if err != nil {
			return err
		}
		if a.Format == frame.Table {
			fmt.Fprint(a.Stdout, table.CleanLines(renderMoved(mv)))
		}
		if mv.State != wire.MoveDone {
			failed = errors.Join(failed, notMoved(mv))
		}
	}
	return failed
}

// ended returns a move at its end.
func (a Commands) ended(ctx context.Context, id string) (api.Move, error) {
	for {
		mv, err := a.ManagerClient().Move(ctx, id)
		if err != nil || !mv.Ended.IsZero() {
			return mv, err
		}
		select {
		case <-ctx.Done():
			return mv, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// notMoved returns the error of a move that did not arrive.
func notMoved(mv api.Move) error {
	return fmt.Errorf("%s was not moved to %s: %s: %s", mv.Container, mv.To, mv.State, mv.Error)
}

func renderPlan(p api.ClusterPlan) string {
	var b strings.Builder
	if len(p.Moves) == 0 {
		b.WriteString(nothing(p))
	} else {
		t := table.New("CONTAINER", "FROM", "TO", ">S AFTER", ">TRAVELS", ">ABOUT", "WHY", "MOVE")
		for _, m := range p.Moves {
			t.Add(m.Container, m.From, m.To, fmt.Sprintf("%.4g", m.S), human.Size(uint64(m.Bytes)), fmt.Sprintf("%.1f s", m.Seconds), m.Why, m.ID)
		}
		b.WriteString(t.String())
	}
	fmt.Fprintf(&b, "\nS %.4g", p.Before.S)
	if len(p.Moves) > 0 {
		fmt.Fprintf(&b, " -> %.4g; most that one node can still guarantee: %s", p.After.S, room(p.Before))
		if was, is := room(p.Before), room(p.After); was != is {
			b.WriteString(" -> " + is)
		}
	}
	fmt.Fprintf(&b, " (%s, alpha %g, %.0f ms)\n\n", p.Algorithm, p.Alpha, p.Seconds*1e3)
	t := table.New("NODE", ">CONTAINERS", ">CPU", ">MEMORY", ">FREE MIN")
	for _, n := range p.Nodes {
		t.Add(n.Name, change(strconv.Itoa(n.Before.Containers), strconv.Itoa(n.After.Containers)), change(human.Percent(n.Before.CPU), human.Percent(n.After.CPU)),
			change(human.Percent(n.Before.Memory), human.Percent(n.After.Memory)), change(human.Measured(float64(n.Before.FreeBps)), human.Measured(float64(n.After.FreeBps))))
	}
	b.WriteString(t.String())
	if p.Calm > 0 && p.Calm < len(p.Nodes) {
		fmt.Fprintf(&b, "\nleft alone: %d of %d nodes, which use at most %s of each resource (--above)\n", p.Calm, len(p.Nodes), human.Percent(p.Above))
	}
	if len(p.Held) > 0 {
		b.WriteString("\nnot moved:\n")
		for _, h := range p.Held {
			fmt.Fprintf(&b, "  %s on %s: %s\n", h.Container, h.Node, h.Why)
		}
	}
	if len(p.Refusals) > 0 {
		fmt.Fprintf(&b, "\nnot accepted:\n  %s\n", strings.Join(p.Refusals, "\n  "))
	}
	if len(p.Unknown) > 0 {
		fmt.Fprintf(&b, "\nnot looked at, for nothing is known of them now: %s\n", strings.Join(p.Unknown, ", "))
	}
	return b.String()
}

// nothing says why a plan has no moves.
func nothing(p api.ClusterPlan) string {
	if p.Calm == 0 || p.Calm < len(p.Nodes) {
		return "nothing is worth a move\n"
	}
	return fmt.Sprintf("no node uses more than %s of its CPU, memory or network, so all are left alone; --above 0 evens them out all the same\n", human.Percent(p.Above))
}

func room(f api.ClusterFit) string {
	if f.FreeNode == "" {
		return "nothing"
	}
	return human.Measured(float64(f.FreeBps)) + " (" + f.FreeNode + ")"
}

func change(before, after string) string {
	if before == after {
		return before
	}
	return before + " -> " + after
}

// migrateInCluster has the manager move a container, and shows each step.
func (a Commands) migrateInCluster(ctx context.Context, m migration) error {
	client := a.ManagerClient()
	mv, err := client.Migrate(ctx, api.MoveRequest{Container: m.Container, To: m.to, Approach: m.approach}, m.dryRun)
	if err != nil {
		return err
	}
	shown := 0
	for !m.dryRun && mv.Ended.IsZero() {
		shown = a.showSteps(mv, shown, len(mv.Steps)-1) // the last one goes on
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
		if mv, err = client.Move(ctx, mv.ID); err != nil {
			return err
		}
	}
	a.showSteps(mv, shown, len(mv.Steps))
	if err := a.Print(mv, func() string { return renderMoved(mv) }); err != nil {
		return err
	}
	switch mv.State {
	case wire.MoveDone:
		return nil
	case wire.MoveRefused:
		return &refusal.Error{Kind: refusal.Conflict, Field: "container", Value: mv.Container, Msg: mv.Error}
	}
	return notMoved(mv)
}
