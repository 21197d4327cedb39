// SPDX-License-Identifier: Apache-2.0

package labcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/base/program"
	"weir/internal/base/verdict"
	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/migrate"
	"weir/internal/core/policy"
	"weir/internal/core/wire"
	"weir/internal/face/cli/clustercmd"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/table"
	"weir/internal/lab"
	"weir/internal/lab/cluster"
	"weir/internal/lab/report"
)

// clusterLab holds the options of weir lab cluster.
type clusterLab struct {
	json, hold               bool
	plot, machines, verdicts string
}

func (a app) labClusterCommand() *cobra.Command {
	var o clusterLab
	c := &cobra.Command{
		Use:   "cluster FILE...",
		Short: "Run a cluster on this machine: migrations, and faults on a timeline",
		Long: `Run scenario files about a cluster: nodes are network namespaces with a Docker engine
each, connected by a switch; containers count in memory and in a file, so that nothing
lost goes unseen; the timeline migrates them and cuts cables, fills disks, kills engines.
docs/cluster-lab.md has the format. Nothing of the machine is touched and nothing is left
behind. Needs root, dockerd and CRIU (scripts/deps cluster).

With --machines vm each node is a virtual machine instead, with an engine, CRIU and a
weir agent on the BPF qdisc in it. That takes a checkout of Weir, and QEMU (scripts/deps
vm); the file has to have agents.

With --hold the cluster stays until you press Ctrl-C, and the addresses of its engines
are printed, for weir migrate and docker.

Exit codes: 0 all expectations hold, 1 one does not, 2 a file is wrong and nothing was
run, 3 a cluster cannot be run here.`,
		Example: `  weir lab cluster lab/cluster/move.yaml
  weir lab cluster lab/cluster/vm.yaml
  weir lab cluster --hold lab/cluster/move.yaml
  weir lab cluster --json lab/c-balancer/fig07.yaml | jq .migration.downtime_ns`,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     cobra.FixedCompletions([]cobra.Completion{"yaml"}, cobra.ShellCompDirectiveFilterFileExt),
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return frame.Usagef("FILE is missing; write: %s", c.UseLine())
			}
			return nil
		},
		RunE: func(c *cobra.Command, files []string) error {
			return a.labCluster(c, files, o)
		},
	}
	c.Flags().BoolVar(&o.json, "json", false, "one JSON object per step of the timeline")
	c.Flags().StringVar(&o.plot, "plot", "", "draw what containers send over time into this `FOLDER`, as SVG and PNG")
	c.Flags().StringVar(&o.machines, "machines", "", "`KIND` of machine that a node is, instead of what the file says: namespace, vm or units")
	frame.CompleteFlags(c, map[string][]string{"machines": {cluster.MachinesNamespace, cluster.MachinesVM, cluster.MachinesUnits}})
	frame.VerdictsFlag(c, &o.verdicts)
	c.Flags().BoolVar(&o.hold, "hold", false, "keep the cluster at the end until Ctrl-C")
	return c
}

func (a app) labCluster(c *cobra.Command, files []string, said clusterLab) error {
	specs := make([]cluster.Spec, len(files))
	for i, file := range files {
		var err error
		if specs[i], err = cluster.LoadFor(file, said.machines); err != nil {
			return frame.Exit(lab.ExitInvalid, err)
		}
	}
	if said.plot != "" {
		if err := report.CheckPlotDir(said.plot); err != nil {
			return frame.Exit(lab.ExitInvalid, err)
		}
	}
	var verdicts []verdict.Verdict
	o, err := a.clusterOptions(c.Context(), specs, said)
	if err != nil {
		return err
	}
	o.Verdict = func(v verdict.Verdict) { verdicts = append(verdicts, v) }
	code, err := a.eachCluster(c.Context(), specs, said.json, func(s cluster.Spec) ([]cluster.Failure, error) {
		return cluster.Run(c.Context(), s, o)
	})
	if err := verdict.Add(said.verdicts, verdicts); err != nil {
		return err
	}
	return frame.Exit(code, err)
}

// eachCluster runs scenarios one after the other and returns the exit code. A scenario that
// cannot be run takes nothing from the others.
func (a app) eachCluster(ctx context.Context, specs []cluster.Spec, json bool, run func(cluster.Spec) ([]cluster.Failure, error)) (code int, err error) {
	var broken []error
	for _, s := range specs {
		if !json {
			fmt.Fprintf(a.Stdout, "== %s\n", table.Clean(s.Name))
		}
		failures, err := run(s)
		for _, f := range failures {
			code = max(code, lab.ExitFailed)
			fmt.Fprintf(a.Stderr, "weir: %s: %s\n", table.Clean(f.Subject), table.Clean(f.What))
		}
		if err == nil {
			continue
		}
		code, broken = lab.ExitBroken, append(broken, fmt.Errorf("%s: %w", table.Clean(s.Name), err))
		if ctx.Err() != nil {
			break
		}
	}
	return code, errors.Join(broken...)
}

// clusterOptions returns what all scenarios of the command line are run with. Those with
// agents need weir.
func (a app) clusterOptions(ctx context.Context, specs []cluster.Spec, said clusterLab) (o cluster.Options, err error) {
	o = cluster.Options{Plot: said.plot, Log: a.Log()}
	if o.Program, err = os.Executable(); err != nil {
		return o, err
	}
	if slices.ContainsFunc(specs, func(s cluster.Spec) bool { return s.Agents != nil }) {
		if o.Weir, err = program.Find(program.Weir); err != nil {
			return o, frame.Exit(lab.ExitBroken, fmt.Errorf("agents: %w; make install installs it", err))
		}
	}
	encoder := json.NewEncoder(a.Stdout)
	o.Event = func(e cluster.Event) {
		if said.json {
			_ = encoder.Encode(e) // the command fails soon enough if the reader is gone
			return
		}
		fmt.Fprint(a.Stdout, table.CleanLines(renderClusterEvent(e)))
	}
	if said.hold {
		o.Hold = func(cl *clustertest.Cluster) {
			a.printEngines(cl)
			<-ctx.Done()
		}
	}
	return o, nil
}

// printEngines prints where the engines of a cluster are reached, for --hold.
func (a app) printEngines(cl *clustertest.Cluster) {
	fmt.Fprintf(a.Stderr, "registry %s\n", cl.Registry)
	for _, n := range cl.Nodes() {
		if n.Machine() != nil {
			fmt.Fprintf(a.Stderr, "%s  a virtual machine, %s; its engine has no socket here\n", n.Name, n.IP)
			continue
		}
		fmt.Fprintf(a.Stderr, "%s  unix://%s\n", n.Name, n.Socket)
	}
}

func labelled(label string) string {
	if label == "" {
		return ""
	}
	return ", " + label
}

// indented returns text below the time of its event.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		b.WriteString("           " + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}

func rateTable(rates []cluster.Rate) string {
	t := table.New("CONTAINER", ">RECEIVED")
	for _, r := range rates {
		t.Add(r.Container, policy.Approx(r.Bps))
	}
	return t.String()
}

// renderClusterEvent returns a line for a step, and one for each step of a migration.
func renderClusterEvent(e cluster.Event) string {
	var b strings.Builder
	switch e.Verb {
	case "say":
		return "\n" + e.Output + "\n\n"
	case "weir":
		fmt.Fprintf(&b, "%7.2f s  $ weir %s\n%s", e.At.Seconds(), e.Subject, indented(e.Output))
		return b.String()
	case "journal":
		fmt.Fprintf(&b, "%7.2f s  journal of the last move of %s\n%s", e.At.Seconds(), e.Subject, indented(e.Output))
		return b.String()
	case "wait":
		return ""
	case "measure":
		fmt.Fprintf(&b, "%7.2f s  received in %v%s\n%s", (e.At + e.Took - e.For).Seconds(), e.For, labelled(e.Label), indented(rateTable(e.Rates)))
		return b.String()
	case "await":
		fmt.Fprintf(&b, "%7.2f s  %s is there, after %.1f s", (e.At + e.Took).Seconds(), e.Subject, e.Took.Seconds())
	}
	if b.Len() == 0 {
		fmt.Fprintf(&b, "%7.2f s  %s %s", e.At.Seconds(), e.Verb, e.Subject)
	}
	if e.To != "" {
		fmt.Fprintf(&b, " to %s", e.To)
	}
	if e.Err != "" {
		fmt.Fprintf(&b, ": %s", e.Err)
	}
	b.WriteString("\n")
	if r := e.Migration; r != nil {
		for _, s := range r.Steps {
			fmt.Fprintf(&b, "             %s\n", clustercmd.RenderStep(s))
		}
		if r.State == wire.MoveDone {
			by := ""
			if r.Approach != migrate.ApproachAuto {
				by = " by approach " + string(r.Approach)
			}
			fmt.Fprintf(&b, "             done%s: %s", by, clustercmd.RenderCost(r.Downtime, r.Bytes))
			if e.Gap > 0 {
				fmt.Fprintf(&b, "; the program has seen %v", e.Gap.Round(time.Millisecond))
			}
		} else {
			fmt.Fprintf(&b, "             %s: %s", r.State, r.Err)
		}
		b.WriteString("\n")
	}
	return b.String()
}
