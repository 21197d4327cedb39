// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/face/cli/frame"
)

// Attach makes weir attach.
func (a Commands) Attach() *cobra.Command {
	var (
		flags  policyFlags
		of     api.AttachRequest
		dryRun bool
	)
	c := a.Printing(&cobra.Command{
		Use:   "attach NAME (--netns NETNS | --device DEV | --unit UNIT | --cgroup DIR)",
		Short: "Make a workload of a network namespace, device, unit or cgroup",
		Long: `Make a workload of something that no container engine knows: a network namespace
(its name under /run/netns, or a path), a veth or tap on the host, systemd units, or
a cgroup of version 2. NAME is what it is called from then on. Its policy can be
given at once. Rates are egress (upload): what leaves the workload.

A unit is a name ("nginx", which is nginx.service), a pattern ("worker@*.service"), or
several of them with commas between; all together are the workload, whenever they run.`,
		Example: `  weir attach blue --netns blue --weight 2
  weir attach vm7 --device tap7 --max 50mbit
  weir attach web --unit nginx.service --min 20mbit
  weir attach batch --cgroup /sys/fs/cgroup/batch --max 10%
  weir attach web --netns /proc/4711/ns/net --dry-run`,
		Args:                  frame.Names("NAME"),
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			given := 0
			for _, flag := range []string{"netns", "device", "unit", "cgroup"} {
				if c.Flags().Changed(flag) {
					given++
				}
			}
			if given != 1 {
				return frame.Usagef("give one of --netns, --device, --unit and --cgroup; write: %s", c.UseLine())
			}
			change, err := flags.asked()
			if err != nil {
				return err
			}
			of.Name, of.Policy = args[0], change
			return a.PrintChange(a.AgentClient().Attach(c.Context(), of, dryRun))
		},
	})
	c.Flags().StringVar(&of.Netns, "netns", "", "network namespace: a `NETNS` under /run/netns or a path")
	c.Flags().StringVar(&of.Device, "device", "", "veth or tap `DEV` on the host")
	c.Flags().StringVar(&of.Unit, "unit", "", "systemd `UNIT`, a pattern, or several with commas between")
	c.Flags().StringVar(&of.Cgroup, "cgroup", "", "`DIR` of a cgroup of version 2")
	flags.register(c)
	frame.DryRunFlag(c, &dryRun)
	return c
}

// Detach makes weir detach.
func (a Commands) Detach() *cobra.Command {
	var dryRun bool
	c := a.Printing(&cobra.Command{
		Use:   "detach NAME",
		Short: "Let go of a workload that was attached",
		Long: `Let go of a workload that was attached: its packets count as the host's again. The
namespace or device itself is not touched.`,
		Example:           `  weir detach blue`,
		Args:              frame.Names("NAME"),
		ValidArgsFunction: a.CompleteWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			return a.PrintChange(a.AgentClient().Detach(c.Context(), args[0], dryRun))
		},
	})
	frame.DryRunFlag(c, &dryRun)
	return c
}
