// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"weir/internal/api"
)

func (a *app) attachCommand() *cobra.Command {
	var (
		flags         policyFlags
		netns, device string
		dryRun        bool
	)
	c := a.printing(&cobra.Command{
		Use:   "attach NAME (--netns NETNS | --device DEV)",
		Short: "Make a workload of a network namespace or of a device",
		Long: `Make a workload of something that no container engine knows: a network namespace
(its name under /run/netns, or a path), or a veth or tap on the host. NAME is what
it is called from then on. Its policy can be given at once. Rates are egress
(upload): what leaves the workload.`,
		Example: `  weir attach blue --netns blue --weight 2
  weir attach vm7 --device tap7 --max 50mbit
  weir attach web --netns /proc/4711/ns/net --dry-run`,
		Args:                  names("NAME"),
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			if (netns == "") == (device == "") {
				return usagef("give one of --netns and --device; write: %s", c.UseLine())
			}
			req := api.AttachRequest{Name: args[0], Netns: netns, Device: device, Policy: flags.change}
			r, err := a.client().Attach(c.Context(), req, dryRun)
			if err != nil {
				return err
			}
			return a.print(r, func() string { return renderChange(r) })
		},
	})
	c.Flags().StringVar(&netns, "netns", "", "network namespace: a `NETNS` under /run/netns or a path")
	c.Flags().StringVar(&device, "device", "", "veth or tap `DEV` on the host")
	flags.register(c)
	dryRunFlag(c, &dryRun)
	return c
}

func (a *app) detachCommand() *cobra.Command {
	var dryRun bool
	c := a.printing(&cobra.Command{
		Use:   "detach NAME",
		Short: "Let go of a workload that was attached",
		Long: `Let go of a workload that was attached: its packets count as the host's again. The
namespace or device itself is not touched.`,
		Example:           `  weir detach blue`,
		Args:              names("NAME"),
		ValidArgsFunction: a.completeWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			r, err := a.client().Detach(c.Context(), args[0], dryRun)
			if err != nil {
				return err
			}
			return a.print(r, func() string { return renderChange(r) })
		},
	})
	dryRunFlag(c, &dryRun)
	return c
}
