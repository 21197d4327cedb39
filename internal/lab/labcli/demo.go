// SPDX-License-Identifier: Apache-2.0

package labcli

import (
	"time"

	"github.com/spf13/cobra"

	"weir/internal/face/cli/frame"
	"weir/internal/lab/demo"
)

func (a app) demoCommand() *cobra.Command {
	o := demo.Options{}
	var noDocker bool
	c := &cobra.Command{
		Use:   "demo",
		Short: frame.Lab.Commands["demo"],
		Long: `Show Weir at work on a private host made of namespaces: an agent steers a link of
100 Mbit/s, three workloads send as fast as they can, and are promised shares by weight,
then a min, then a max. What arrives is shown live, compared with what was promised and
drawn. Nothing of the machine is touched and nothing is left behind. Needs root.

The workloads are Docker containers if dockerd is installed (in an engine of the demo's
own, which pulls nothing), else network namespaces.

Exit codes: 0 every promise was kept, 1 one was not, or the demo failed.`,
		Example: `  weir demo
  weir demo --no-docker --phase 20s --out /tmp`,
		Args:              frame.Names(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Docker = !noDocker
			return demo.Run(c.Context(), o)
		},
	}
	c.Flags().BoolVar(&noDocker, "no-docker", false, "use network namespaces even if there is Docker")
	c.Flags().DurationVar(&o.Phase, "phase", 8*time.Second, "length of each of the three phases, at least 3s")
	c.Flags().StringVar(&o.Out, "out", "out", "folder to draw the timeline into, as SVG and PNG")
	return c
}
