// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/api"
)

func (a *app) setCommand() *cobra.Command {
	var (
		flags  policyFlags
		dryRun bool
	)
	c := a.printing(&cobra.Command{
		Use:   "set NAME",
		Short: "Change a workload's weight, min, max, queues or group while it runs",
		Long: `Change a workload's policy while it runs. What is not given stays as it is. The
change holds at once, loses no packet, and outlives restarts of the workload and
of the agent; --reset forgets it, so that labels and configuration count again.
Rates are egress (upload): what leaves the workload; those of --ingress-... are what
comes to it (download).

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
  weir set pbx --discipline llq --queue 'voice: {rate: 1mbit, match: [{preset: voip}]}' --queue 'rest: {}'
  weir set web --group tenant-b --aqm 2ms/50ms --dscp af21`,
		Args:              names("NAME"),
		ValidArgsFunction: a.completeWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			change, err := flags.asked()
			if err != nil {
				return err
			}
			if change.Empty() {
				return usagef("nothing to set; give --weight, --min, --max, --reserve, --limit-packets, --limit-bytes, --discipline, --queue, --aqm, --dscp, --group or --reset")
			}
			return a.printChange(a.client().Set(c.Context(), args[0], change, dryRun))
		},
	})
	flags.register(c)
	flags.registerReset(c)
	dryRunFlag(c, &dryRun)
	return c
}

func dryRunFlag(c *cobra.Command, to *bool) {
	c.Flags().BoolVar(to, "dry-run", false, "say what would change and change nothing")
}

// printChange prints the answer to a request that changes something.
func (a *app) printChange(r api.ChangeResult, err error) error {
	if err != nil {
		return err
	}
	return a.print(r, func() string { return renderChange(r) })
}

// renderChange lists what was, or would be, changed and why.
func renderChange(r api.ChangeResult) string {
	var b strings.Builder
	indent := ""
	if r.DryRun {
		b.WriteString("dry run, nothing is changed; without --dry-run this would be:\n")
		indent = "  "
	}
	for _, ch := range r.Changes {
		fmt.Fprintf(&b, "%s%s\n", indent, withNote(ch.What, ch.Why))
	}
	if len(r.Changes) == 0 {
		b.WriteString(indent + "nothing to change: it is so already\n")
	}
	if r.Workload != nil {
		b.WriteString(warningLines(indent, r.Workload.Warnings))
	}
	return b.String()
}

// warningLines are what may not be meant in a policy, a line for each.
func warningLines(indent string, warnings []string) string {
	var b strings.Builder
	for _, w := range warnings {
		fmt.Fprintf(&b, "%swarning: %s\n", indent, w)
	}
	return b.String()
}
