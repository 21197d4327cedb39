// SPDX-License-Identifier: Apache-2.0

package labcli

import (
	"github.com/spf13/cobra"

	"weir/internal/core/plan"
	"weir/internal/face/cli/frame"
	"weir/internal/lab"
)

func (a app) labCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "lab",
		Short: frame.Lab.Commands["lab"],
		Long: `Build a link and workloads out of network namespaces on this kernel, send real
traffic, measure, and compare with what the contract promises. Nothing of the machine
is touched and nothing is left behind. Needs root; no agent is involved.`,
		Example: `  weir lab run lab/demo/shares.yaml
  weir lab run --scheduler fair,htb --plot /tmp lab/demo`,
	}
	frame.AsGroup(c)
	c.AddCommand(a.labRunCommand(), a.labRandomCommand(), a.labPeersCommand(), a.labClusterCommand())
	return c
}

func (a app) labRunCommand() *cobra.Command {
	o := lab.Options{}
	c := &cobra.Command{
		Use:   "run FILE...",
		Short: "Run scenario files and report what was measured beside the ideal",
		Long: `Run scenario files, one after the other; a folder stands for the *.yaml in it. All
are checked before the first is run.

Exit codes: 0 all expectations hold, 1 one does not, a generator failed or one of several
schedulers could not be measured, 2 a file or an option is wrong and nothing was run, 3 a
scenario cannot be run here. Whatever fails, the other results are printed.`,
		Example: `  weir lab run lab/demo/shares.yaml
  weir lab run --json lab/qcon | jq 'select(.workload) | {phase, workload, error}'
  weir lab run --scheduler fair,qcon,htb --plot out lab/qcon/fig07.yaml`,
		DisableFlagsInUseLine: true,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return frame.Usagef("FILE is missing; write: %s", c.UseLine())
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions([]cobra.Completion{"yaml"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE: func(c *cobra.Command, files []string) error {
			o.Files = files
			return a.runLab(&o, func() (int, error) { return lab.Run(c.Context(), o) })
		},
	}
	labFlags(c, &o, "use these `NAMES` instead of the files' own, with commas between them")
	return c
}

func (a app) labRandomCommand() *cobra.Command {
	o := lab.Options{}
	var seed uint64
	var count int
	var groups, zones bool
	c := &cobra.Command{
		Use:   "random [--seed N] [--count K] [--groups|--zones]",
		Short: "Run scenarios with random policies and check the shares against the contract",
		Long: `Run scenarios of up to eight workloads with random weights, mins and maxes, which
change in a second phase. A seed gives the same scenario on every machine; the seeds are
N, N+1 and so on, N a new one each time unless --seed gives it, and each is printed. A
scenario whose expectations do not hold is printed as a file. With --groups, eight
workloads are in three groups or in none; with --zones, they send to two zones behind
the link or to none.

Exit codes: as weir lab run.`,
		Example: `  weir lab random --count 20
  weir lab random --seed 4711 --scheduler fair,htb`,
		DisableFlagsInUseLine: true,
		Args:                  frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("seed") {
				seed = lab.NewSeed()
			}
			mix := lab.Mix("")
			switch {
			case groups:
				mix = lab.OfGroups
			case zones:
				mix = lab.OfZones
			}
			return a.runLab(&o, func() (int, error) { return lab.RunRandom(c.Context(), o, seed, count, mix) })
		},
	}
	c.Flags().Uint64Var(&seed, "seed", 0, "`N`, the first scenario's seed, to repeat a run (default: a new one, which is printed)")
	c.Flags().IntVar(&count, "count", 1, "`K`, how many scenarios")
	c.Flags().BoolVar(&groups, "groups", false, "trees of groups instead: the contract at two levels")
	c.Flags().BoolVar(&zones, "zones", false, "zones behind the link instead: the contract in each")
	c.MarkFlagsMutuallyExclusive("groups", "zones")
	labFlags(c, &o, "use these `NAMES` instead of fair, with commas between them")
	return c
}

// labFlags adds the flags of all commands that run scenarios.
func labFlags(c *cobra.Command, o *lab.Options, scheduler string) {
	c.Flags().BoolVar(&o.JSON, "json", false, "one JSON object per phase and workload, and one per phase for the link")
	c.Flags().StringVar(&o.PlotDir, "plot", "", "`FOLDER` to draw each timeline into, as SVG and PNG")
	c.Flags().StringVar(&o.Scheduler, "scheduler", "", scheduler)
	c.Flags().StringVar(&o.Backend, "backend", "", "`NAME` of the backend: auto, bpf or tc (default auto: bpf where the kernel can, else tc); where bpf is demanded and not possible, exit code 3")
	frame.VerdictsFlag(c, &o.Verdicts)
	c.Flags().BoolVar(&o.CPU, "cpu", false, "measure CPU time exactly, with a process that uses all idle time")
	frame.CompleteFlags(c, map[string][]string{"backend": plan.Backends})
}

// runLab gives the options the app's streams and log, and runs.
func (a app) runLab(o *lab.Options, run func() (int, error)) error {
	o.Stdout, o.Stderr, o.Log = a.Stdout, a.Stderr, a.Log()
	code, err := run()
	return frame.Exit(code, err)
}

func (a app) labPeersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "peers",
		Short: "Show how each of the kernel's own schedulers is set up for comparison",
		Args:  frame.Names(),
		RunE: func(*cobra.Command, []string) error {
			lab.ExplainPeers(a.Stdout)
			return nil
		},
	}
}
