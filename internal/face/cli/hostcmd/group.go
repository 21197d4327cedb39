// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/core/policy"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
)

// Group makes weir group.
func (a Commands) Group() *cobra.Command {
	c := &cobra.Command{
		Use:   "group",
		Short: "Promise something to several workloads together",
		Long: `A group has weight, min and max like a workload. The link is divided among groups
and workloads without one, and then each group's part among its members. Workloads
are put into a group by weir set NAME --group GROUP, by the label weir.group, or by
group: in weir.yaml.`,
	}
	frame.AsGroup(c)
	c.AddCommand(a.groupSetCommand(), a.groupListCommand(), a.groupDeleteCommand())
	return c
}

func (a Commands) groupSetCommand() *cobra.Command {
	var (
		flags  policyFlags
		dryRun bool
	)
	c := a.Printing(&cobra.Command{
		Use:   "set GROUP",
		Short: "Make a group, or change its weight, min or max",
		Long: `Make a group, or change one. A field that is not given stays as it is; a new group
has weight 1, no min and no max. The change outlives restarts of the agent. Without a
min of its own a group reserves the sum of its members' mins; with one, they have
to fit within it. Rates are egress (upload).`,
		Example: `  weir group set tenant-b --weight 2 --max 40mbit
  weir set web --group tenant-b
  weir group set tenant-b --min 30mbit --dry-run`,
		Args:              frame.Names("GROUP"),
		ValidArgsFunction: a.completeGroup,
		RunE: func(c *cobra.Command, args []string) error {
			change := api.GroupChange{PolicyChange: flags.change}
			if change.Empty() {
				return frame.Usagef("nothing to set; give %s", flagNames(policy.OnGroup, "or", "--reset"))
			}
			return a.PrintChange(a.AgentClient().SetGroup(c.Context(), args[0], change, dryRun))
		},
	})
	flags.registerGroup(c)
	flags.registerReset(c)
	frame.DryRunFlag(c, &dryRun)
	return c
}

func (a Commands) groupListCommand() *cobra.Command {
	return a.Printing(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "Show the groups, their policies and their members",
		Example: `  weir group list
  weir group list -o json | jq -r '.[].members[]'`,
		Args: frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			groups, err := a.AgentClient().Groups(c.Context())
			if err != nil {
				return err
			}
			return a.Print(groups, func() string { return renderGroups(groups) })
		},
	})
}

func (a Commands) groupDeleteCommand() *cobra.Command {
	var dryRun bool
	c := a.Printing(&cobra.Command{
		Use:               "delete GROUP",
		Aliases:           []string{"rm"},
		Short:             "Remove a group without members",
		Example:           `  weir group delete tenant-b`,
		Args:              frame.Names("GROUP"),
		ValidArgsFunction: a.completeGroup,
		RunE: func(c *cobra.Command, args []string) error {
			return a.PrintChange(a.AgentClient().DeleteGroup(c.Context(), args[0], dryRun))
		},
	})
	frame.DryRunFlag(c, &dryRun)
	return c
}

// completeGroup offers the names of the groups there are.
func (a Commands) completeGroup(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return frame.CompleteFirst(func(ctx context.Context) (found []cobra.Completion, err error) {
		groups, err := a.AgentClient().Groups(ctx)
		for _, g := range groups {
			found = append(found, cobra.CompletionWithDesc(g.Name, fmt.Sprintf("%d members", len(g.Members))))
		}
		return found, err
	})(c, args, word)
}

func renderGroups(groups []api.Group) string {
	if len(groups) == 0 {
		return "no groups; make one by weir group set GROUP, or under groups: in weir.yaml\n"
	}
	return groupTable(groups).String()
}

// membersLine names the members of a group in a line.
func membersLine(members []string) string { return cmp.Or(strings.Join(members, ", "), "-") }

func groupTable(groups []api.Group) *table.Table {
	t := table.New("GROUP", "STATE", "LINK", ">WEIGHT", ">RESERVED", ">MAX", ">RATE", ">IDEAL", "MEMBERS", "NOTE")
	for _, g := range groups {
		weight, members := fmt.Sprint(g.Policy.Weight), membersLine(g.Members)
		if len(g.Links) == 0 {
			t.Add(g.Name, g.State, "-", weight, orDash(g.Policy.Min.Compact()), orDash(g.Policy.Max.Compact()), "-", "-", members, g.Note)
		}
		for _, l := range g.Links {
			t.Add(g.Name, g.State, l.Device, weight, human.Limit(l.MinBps), human.Limit(l.MaxBps), human.Measured(l.RateBps), human.Measured(l.IdealBps), members, g.Note)
		}
	}
	return t
}
