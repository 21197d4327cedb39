// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/base/verdict"
	"weir/internal/cluster/optimize"
	"weir/internal/cluster/sim"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
)

// simulation holds the options of weir simulate.
type simulation struct {
	nodes, containers int
	algorithms        string
	measure           string
	verdicts          string
	sim.Options
}

func (a commands) simulateCommand() *cobra.Command {
	o := simulation{}
	c := &cobra.Command{
		Use:   "simulate [FILE...]",
		Short: "Try how a cluster's containers would be moved, without a cluster",
		Long: `Have the optimizer plan for clusters that need not exist, and show what S, the
stability metric, would become, with how many moves, how long the moves would take and
how long planning took. FILE describes a cluster (*.yaml, docs/simulate.md) or has
profiles that agents have sent, one in JSON per line (*.json, *.jsonl). Without FILE, a
cluster is made up from --nodes, --containers and --seed.

S is the variance over the nodes of a node's utilisation, added up over CPU, memory,
block I/O and network. With --measure load the utilisation is the part of its capacity
that a node's containers use; with mean, as in the C-Balancer paper, the mean of it over
the node's containers.

A file of clusters to be launched several times (lab/c-balancer/fig10b.yaml) has
conditions on the mean over them; it is given alone, and its own algorithms and seeds
count. The exit code is 1 if one does not hold.

Nothing is moved; no agent and no manager is involved.`,
		Example: `  weir simulate --nodes 1000 --containers 10000
  weir simulate --algorithm local,genetic,spread lab/c-balancer/w01.yaml
  weir simulate --nodes 14 --containers 200 --max-moves 10 -o json`,
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, files []string) error {
			if series := o.series(files); series != nil {
				return a.simulateSeries(files[0], series, o.verdicts)
			}
			if o.verdicts != "" {
				return frame.Usagef("--verdicts: there are no expectations to judge; give a file of clusters such as lab/c-balancer/fig10b.yaml")
			}
			results, err := o.run(c, files)
			if err != nil {
				return err
			}
			return a.Print(results, func() string { return renderSimulation(results) })
		},
	}
	c.Flags().IntVar(&o.nodes, "nodes", 14, "`N` nodes of a cluster that is made up")
	c.Flags().IntVar(&o.containers, "containers", 200, "`M` containers of it")
	c.Flags().StringVar(&o.algorithms, "algorithm", string(sim.Local), "`NAMES` with commas between them: "+strings.Join(sim.Algorithms(), ", "))
	c.Flags().StringVar(&o.measure, "measure", "", "`NAME` of the measure of S: load or mean (default: the file's, or load)")
	c.Flags().Float64Var(&o.Alpha, "alpha", optimize.DefaultAlpha, "`A`, how much S counts against the cost of moves, 0 to 1")
	c.Flags().IntVar(&o.MaxMoves, "max-moves", 0, "move at most `N` containers, 0 = no limit")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "`N` that determines whatever is left to chance")
	c.Flags().IntVar(&o.Effort, "effort", 0, "`N`, how many changes the local search tries; 0 = by the number of containers")
	c.Flags().IntVar(&o.Genetic.Population, "population", 0, "`N` chromosomes of the genetic algorithm (default 200)")
	c.Flags().IntVar(&o.Genetic.Generations, "generations", 0, "`N` generations of it (default 300)")
	c.Flags().IntVar(&o.Genetic.Elite, "elite", 0, "`N` fittest chromosomes that are passed on as they are (default 10)")
	c.Flags().Float64Var(&o.Genetic.Crossover, "crossover", 0, "`P`, the probability that two parents are crossed (default 0.8)")
	c.Flags().Float64Var(&o.Genetic.Mutation, "mutation", 0, "`N` genes of a child that become a random node, on average (default 0.05)")
	c.Flags().DurationVar(&o.For, "for", 0, "`TIME` after which the genetic algorithm ends (default: after 300 generations)")
	c.Flags().IntVar(&o.Parallel, "parallel", sim.DefaultParallel, "`N` moves at once")
	frame.VerdictsFlag(c, &o.verdicts)
	a.Printing(c)
	frame.CompleteFlags(c, map[string][]string{"algorithm": sim.Algorithms(), "measure": optimize.Measures})
	return c
}

// simulated is a result and the cluster that it is of.
type simulated struct {
	Cluster string `json:"cluster"`
	sim.Result
}

func (o *simulation) run(c *cobra.Command, files []string) ([]simulated, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		p := optimize.Synthetic(o.nodes, o.containers, o.Seed)
		return o.plan(c, fmt.Sprintf("%d containers on %d nodes", o.containers, o.nodes), p)
	}
	var all []simulated
	for _, file := range files {
		p, name, err := readCluster(file)
		if err != nil {
			return nil, frame.Exit(frame.ExitUsage, err)
		}
		results, err := o.plan(c, name, p)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	return all, nil
}

// largest bounds the number of nodes or containers that can be made up: they fit into a
// few GB.
const largest = 1_000_000

func (o *simulation) check() error {
	switch {
	case o.nodes < 1 || o.nodes > largest:
		return frame.Usagef("--nodes %d: give 1 to %d", o.nodes, largest)
	case o.containers < 0 || o.containers > largest:
		return frame.Usagef("--containers %d: give 0 to %d", o.containers, largest)
	case !(o.Alpha >= 0 && o.Alpha <= 1):
		return frame.Usagef("--alpha %v: give a number from 0 (move nothing) to 1 (moves cost nothing)", o.Alpha)
	case o.MaxMoves < 0:
		return frame.Usagef("--max-moves %d: write 1 or more, or 0 for no limit", o.MaxMoves)
	case o.Effort < 0:
		return frame.Usagef("--effort %d: write 1 or more, or 0 to go by the number of containers", o.Effort)
	case o.For < 0:
		return frame.Usagef("--for %v: write a time such as 10s, or 0 for 300 generations", o.For)
	case min(o.Genetic.Population, o.Genetic.Generations, o.Genetic.Elite) < 0:
		return frame.Usagef("--population, --generations or --elite is below 0: write 1 or more, or 0 for the default")
	case !(o.Genetic.Crossover >= 0 && o.Genetic.Crossover <= 1):
		return frame.Usagef("--crossover %v: give a probability from 0 (the default) to 1", o.Genetic.Crossover)
	case !(o.Genetic.Mutation >= 0):
		return frame.Usagef("--mutation %v: give a number of genes, or 0 for the default", o.Genetic.Mutation)
	case o.Parallel < 1:
		return frame.Usagef("--parallel %d: write 1 or more", o.Parallel)
	case o.measure != "" && !slices.Contains(optimize.Measures, o.measure):
		return frame.Usagef("--measure %q: write load or mean", o.measure)
	}
	for name := range strings.SplitSeq(o.algorithms, ",") {
		if !slices.Contains(sim.Algorithms(), name) {
			return frame.Usagef("--algorithm %q: write one of %s", name, strings.Join(sim.Algorithms(), ", "))
		}
	}
	return nil
}

// readCluster reads a file of either kind.
func readCluster(file string) (p *optimize.Problem, name string, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, "", frame.Usagef("FILE %q: %v; name a cluster file, as docs/simulate.md shows", file, reasonOf(err))
	}
	if strings.HasSuffix(file, ".json") || strings.HasSuffix(file, ".jsonl") {
		p, err = sim.Recorded(file, data)
		return p, file, err
	}
	f, err := sim.Parse(file, data, os.ReadFile)
	if err != nil {
		return nil, "", err
	}
	if p, err = f.Problem(); err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	if f.Name == "" {
		f.Name = file
	}
	return p, f.Name, nil
}

// series returns the text of the only file, if that is of several clusters; else nil.
func (o *simulation) series(files []string) []byte {
	if len(files) != 1 {
		return nil
	}
	data, err := os.ReadFile(files[0])
	if err != nil || !sim.IsSeries(data) {
		return nil
	}
	return data
}

// simulateSeries runs a file of several clusters, judges it and adds what became of its
// conditions to the file verdicts, "" = none.
func (a commands) simulateSeries(file string, data []byte, verdicts string) error {
	s, err := sim.ParseSeries(file, data)
	if err != nil {
		return frame.Exit(frame.ExitUsage, err)
	}
	results, err := sim.RunSeries(file, s, os.ReadFile)
	if err != nil {
		return frame.Exit(frame.ExitUsage, err)
	}
	if err := a.Print(results, func() string { return renderSeries(results) }); err != nil {
		return err
	}
	list := seriesVerdicts(s, results)
	if err := verdict.Add(verdicts, list); err != nil {
		return err
	}
	for _, f := range verdict.Failures(list) {
		fmt.Fprintf(a.Stderr, "weir: %s\n", table.Clean(f))
	}
	if len(verdict.Failures(list)) > 0 {
		return frame.Exit(frame.ExitFailed, nil)
	}
	return nil
}

// seriesVerdicts returns the verdicts of a series' conditions, in their order.
func seriesVerdicts(s *sim.Series, results []sim.SeriesResult) (list []verdict.Verdict) {
	for _, r := range results {
		if r.Holds == nil {
			continue
		}
		e := s.Entries[len(list)]
		v := verdict.Verdict{Scenario: s.Name, File: s.File, Line: e.Line, Expect: e.Text, Check: "s_reduction", Figure: fmt.Sprintf("%.1f %%", r.Reduction*100)}
		if !*r.Holds {
			v.Failures = []string{fmt.Sprintf("%s:%d: %s: S is reduced by %s on average, expected at least %.1f %%", s.File, e.Line, r.Algorithm, v.Figure, r.Bar*100)}
		}
		list = append(list, v)
	}
	return list
}

func renderSeries(list []sim.SeriesResult) string {
	t := table.New("CLUSTER", "ALGORITHM", ">REDUCED", ">MOVES", "BAR")
	for _, r := range list {
		name, algorithm, bar := r.Cluster, string(r.Algorithm), ""
		if r.MovesOf != "" {
			algorithm += ", at most the moves of " + string(r.MovesOf)
		}
		if r.Holds != nil {
			name, bar = "mean", fmt.Sprintf("%.1f %%: holds", r.Bar*100)
			if !*r.Holds {
				bar = fmt.Sprintf("%.1f %%: does not hold", r.Bar*100)
			}
		}
		t.Add(name, algorithm, fmt.Sprintf("%.1f %%", r.Reduction*100), fmt.Sprintf("%.1f", r.Moves), bar)
	}
	return t.String()
}

func (o *simulation) plan(c *cobra.Command, name string, p *optimize.Problem) ([]simulated, error) {
	if o.measure != "" {
		p.Measure = optimize.Measure(slices.Index(optimize.Measures, o.measure))
	}
	began := time.Now()
	o.Stop = func(float64) bool { return c.Context().Err() != nil }
	var list []simulated
	for algorithm := range strings.SplitSeq(o.algorithms, ",") {
		r, err := sim.Run(p, sim.Algorithm(algorithm), o.Options, func() time.Duration { return time.Since(began) })
		if err != nil {
			return nil, err
		}
		if err := c.Context().Err(); err != nil {
			return nil, err
		}
		list = append(list, simulated{name, r})
	}
	return list, nil
}

func renderSimulation(list []simulated) string {
	t := table.New("CLUSTER", "ALGORITHM", "MEASURE", ">S BEFORE", ">S AFTER", ">REDUCED", ">PEAK CPU", ">PEAK MEMORY", ">MOVES", ">BYTES", ">MOVES TAKE", ">PLANNED IN")
	for _, r := range list {
		reduced := "-"
		if r.SBefore > 0 {
			reduced = fmt.Sprintf("%.1f %%", r.Reduction*100)
		}
		peak := func(resource string) string {
			return fmt.Sprintf("%.0f -> %.0f %%", r.PeakBefore[resource]*100, r.PeakAfter[resource]*100)
		}
		t.Add(r.Cluster, string(r.Algorithm), r.Measure, fmt.Sprintf("%.3g", r.SBefore), fmt.Sprintf("%.3g", r.SAfter), reduced,
			peak("cpu"), peak("memory"), strconv.Itoa(r.Moves), human.Size(uint64(r.Bytes)), rough(r.Makespan), rough(r.RunTime))
	}
	return t.String()
}

// rough returns a duration in seconds with three digits at most.
func rough(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// reasonOf returns the reason for which a file cannot be opened, without the file's name.
func reasonOf(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
