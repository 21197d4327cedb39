// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/policy"
)

func (a *app) setCommand() *cobra.Command {
	var (
		flags  policyFlags
		dryRun bool
	)
	c := a.printing(&cobra.Command{
		Use:   "set (NAME | group NAME)",
		Short: "Change a workload's weight, min, max, queues or group while it runs",
		Long: `Change a workload's policy, or a group's, while it runs. What is not given stays as it is. The
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
  weir set group tenant-b --max 40mbit
  weir set web --group tenant-b --aqm 2ms/50ms --dscp af21`,
		Args:              nameOrGroup("NAME"),
		ValidArgsFunction: a.completeWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			change, err := flags.asked()
			if err != nil {
				return err
			}
			if change.Empty() {
				return usagef("nothing to set; give %s", flagNames(policy.OnWorkload, "or", "--reset"))
			}
			if len(args) == 2 {
				group, err := asGroupChange(change)
				if err != nil {
					return err
				}
				return a.printChange(a.client().SetGroup(c.Context(), args[1], group, dryRun))
			}
			result, err := a.client().Set(c.Context(), args[0], change, dryRun)
			return a.printChange(result, a.groupHint(c.Context(), args[0], err))
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

// renderChange lists the changes that were made, or would be, with their reasons.
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
	for _, line := range storedLines(r) {
		b.WriteString(indent + line + "\n")
	}
	if r.Workload != nil {
		b.WriteString(warningLines(indent, r.Workload.Warnings))
	}
	return b.String()
}

// storedLines say what of the settings made at run time was stored or dropped beside
// the changes, and that nothing was, where that is so.
func storedLines(r api.ChangeResult) []string {
	name, reset := "", ""
	switch {
	case r.Workload != nil:
		name, reset = r.Workload.Name, "weir set "+r.Workload.Name+" --reset"
	case r.Group != nil:
		name, reset = "group "+r.Group.Name, "weir group set "+r.Group.Name+" --reset"
	}
	var lines []string
	if len(r.Stored) > 0 {
		lines = append(lines, fmt.Sprintf("stored: %s of %s is set at run time from now on, with the value that it had; it counts before labels and weir.yaml until %s",
			fieldValues(r.Stored), name, reset))
	}
	if len(r.NotHeld) > 0 {
		lines = append(lines, fmt.Sprintf("stored: %s of %s, which is not held on this kernel", fieldValues(r.NotHeld), name))
	}
	if len(r.Dropped) > 0 {
		lines = append(lines, fmt.Sprintf("dropped: %s of %s is no longer set at run time; labels and weir.yaml count again", fieldValues(r.Dropped), name))
	}
	if len(r.Changes) == 0 {
		switch {
		case len(lines) > 0:
			lines = append(lines, "the kernel has nothing to change")
		case name == "":
			lines = append(lines, "nothing to change")
		default:
			lines = append(lines, fmt.Sprintf("nothing to change: %s is so already, and nothing was stored or dropped", name))
		}
	}
	return lines
}

// fieldValues lists fields with their values, such as "min 20mbit, weight 3".
func fieldValues(values map[string]string) string {
	var list []string
	for _, field := range slices.Sorted(maps.Keys(values)) {
		value := values[field]
		if strings.HasSuffix(field, "queues") { // as JSON
			value = ""
		}
		list = append(list, strings.TrimSpace(field+" "+value))
	}
	return strings.Join(list, ", ")
}

// warningLines returns a line for each setting of a policy that the user may not have
// meant.
func warningLines(indent string, warnings []string) string {
	var b strings.Builder
	for _, w := range warnings {
		fmt.Fprintf(&b, "%swarning: %s\n", indent, w)
	}
	return b.String()
}
