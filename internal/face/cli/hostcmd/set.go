// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"github.com/spf13/cobra"

	"weir/internal/core/policy"
	"weir/internal/face/cli/frame"
)

// Set makes weir set.
func (a Commands) Set() *cobra.Command {
	var (
		flags  policyFlags
		dryRun bool
		all    bool
	)
	c := a.Printing(&cobra.Command{
		Use:   "set (NAME | group NAME | --all --reset)",
		Short: "Change a workload's weight, min, max, queues or group while it runs",
		Long: `Change a workload's policy, or a group's, while it runs. A field that is not given stays as it is. The
change holds at once, loses no packet, and outlives restarts of the workload and
of the agent; --reset drops it, so that labels and configuration count again, and with
--all instead of a name does so for all workloads and groups; weir get --set lists them.
Rates are egress (upload); those of --ingress-... are ingress (download).

A discipline says which of the workload's own packets goes first. Its queues are
given with it, each by --queue as in weir.yaml; they take the place of those that
were there. docs/disciplines.md has examples.`,
		Example: `  weir set web --weight 3 --min 20mbit
  weir set web --max none
  weir set web --min 25% --dry-run
  weir set web --ingress-min 30mbit --ingress-max 50%
  weir set web --reserve 10mbit
  weir set web --reserve 4mbit --direction ingress
  weir set pbx --reserve 2mbit --queue video
  weir set web --reset
  weir set --all --reset --dry-run
  weir set pbx --discipline llq --queue 'voice: {rate: 1mbit, match: [{preset: voip}]}' --queue 'rest: {}' --aqm 5ms/100ms
  weir set group tenant-b --max 40mbit
  weir set web --group tenant-b --aqm 2ms/50ms --dscp af21`,
		Args: func(c *cobra.Command, args []string) error {
			if all && len(args) == 0 {
				return nil
			}
			return nameOrGroup("NAME")(c, args)
		},
		ValidArgsFunction: a.CompleteWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			change, err := flags.asked()
			if err != nil {
				return err
			}
			if all {
				if len(args) > 0 || !change.Reset || len(change.Given()) > 0 {
					return frame.Usagef("--all drops what was set at run time of all workloads and groups, and nothing else; write: weir set --all --reset")
				}
				return a.resetAll(c.Context(), dryRun)
			}
			if change.Empty() {
				return frame.Usagef("nothing to set; give %s", flagNames(policy.OnWorkload, "or", "--reset"))
			}
			if len(args) == 2 {
				group, err := asGroupChange(change)
				if err != nil {
					return err
				}
				return a.PrintChange(a.AgentClient().SetGroup(c.Context(), args[1], group, dryRun))
			}
			result, err := a.AgentClient().Set(c.Context(), args[0], change, dryRun)
			return a.PrintChange(result, a.groupHint(c.Context(), args[0], err))
		},
	})
	flags.register(c)
	flags.registerReset(c)
	c.Flags().BoolVar(&all, "all", false, "with --reset: of all workloads and groups")
	frame.DryRunFlag(c, &dryRun)
	return c
}
