// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
)

// Explain makes weir explain.
func (a Commands) Explain() *cobra.Command {
	var packet packetFlags
	c := a.Printing(&cobra.Command{
		Use:   "explain (NAME | group NAME)",
		Short: "Say why a workload has the rate it has, or which queue a packet joins",
		Long: `Say why a workload has the rate it has: its fair share, the other active ones, and
whether its min, its max, its share or its own demand decides. For a workload in a
group, the same of the group first. Of a group: its policy, its members, and
the rate that each of them gets of the group's part. A group can be called by its name
alone where no workload has that name.

With a packet, say which rule it meets and which of the workload's queues it joins.
A rule on a field that is not given does not fit.`,
		Example: `  weir explain web
  weir explain web -o json | jq -r '.links[].binds'
  weir explain group tenant-b
  weir explain pbx --udp 10.0.0.2:5060
  weir explain pbx --tcp '[2001:db8::1]:443' --from :50000 --dscp af41`,
		Args:              nameOrGroup("NAME"),
		ValidArgsFunction: a.CompleteWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			group := len(args) == 2
			if p, given, err := packet.packet(c); err != nil {
				return err
			} else if given && group {
				return frame.Usagef("a packet is of a workload: a group has no queues; name one of its members")
			} else if given {
				place, err := a.AgentClient().Classify(c.Context(), args[0], p)
				if err != nil {
					return err
				}
				return a.Print(place, func() string { return renderPlacement(place) })
			}
			e, err := orGroup(c.Context(), args, a.AgentClient().Explain, a.AgentClient().ExplainGroup)
			if err != nil {
				return err
			}
			return a.Print(e, func() string { return renderExplanation(e) })
		},
	})
	packet.register(c)
	return c
}

// bindsText says in words what decides a rate.
func bindsText(binds string) string {
	switch binds {
	case "share":
		return "its fair share"
	case "demand":
		return "its own demand"
	case "min", "max":
		return "its " + binds
	case "idle":
		return "nothing: it is idle"
	}
	return binds
}

// renderExplanation returns the text of weir explain.
func renderExplanation(e api.Explanation) string {
	var b strings.Builder
	if len(e.Links) == 0 {
		fmt.Fprintf(&b, "%s is on no link; see weir get %s\n", e.Name, e.Name)
	}
	for i, l := range e.Links {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s on %s, %s: %s\n", e.Name, l.Device, human.Direction(l.Direction), human.Measured(l.RateBps))
		for _, sentence := range l.Text {
			fmt.Fprintf(&b, "  %s\n", sentence)
		}
		b.WriteByte('\n')
		where := ""
		if g := l.Group; g != nil {
			fmt.Fprintf(&b, "  group       %s: decided by %s, ideal %s, level of the link %s for each unit of its weight of %d\n",
				g.Name, bindsText(g.Binds), human.Measured(g.IdealBps), human.Measured(g.LevelBps), g.Weight)
			where = " within the group"
		}
		fmt.Fprintf(&b, "  decided by  %s\n", bindsText(l.Binds))
		fmt.Fprintf(&b, "  ideal       %s\n", human.Measured(l.IdealBps))
		fmt.Fprintf(&b, "  fair share  %s%s, before min and max\n", human.Measured(l.FairBps), where)
		fmt.Fprintf(&b, "  level       %s for each unit of weight%s\n", human.Measured(l.LevelBps), where)
		if len(l.Members) > 0 {
			b.WriteString(activeTable("  ITS MEMBERS", l.Members))
		}
		b.WriteString(othersText(l.Others))
	}
	if len(e.Warnings) > 0 {
		b.WriteString("\n" + human.Warnings("", e.Warnings))
	}
	return b.String()
}

func othersText(others []api.Other) string {
	if len(others) == 0 {
		return "\n  no other workload is active\n"
	}
	return activeTable("  ALSO ACTIVE", others)
}

func activeTable(title string, others []api.Other) string {
	t := table.New(title, ">WEIGHT", ">RATE", "DECIDED BY")
	for _, o := range others {
		t.Add("  "+o.Name, fmt.Sprint(o.Weight), human.Measured(o.RateBps), bindsText(o.Binds))
	}
	return "\n" + t.String()
}
