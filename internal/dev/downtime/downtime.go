// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/lab/cluster"
)

// columns of the tables of steps: title and steps.
var columns = []struct {
	title string
	names []string
}{
	{"freeze", []string{"freeze"}}, {"commit", []string{"commit"}}, {"push", []string{"push"}}, {"pull", []string{"pull"}},
	{"files", []string{"send layer", "send export", "send volume"}}, {"checkpoint sent", []string{"send checkpoint"}},
	{"create", []string{"create"}}, {"restore", []string{"restore"}},
}

// down are the steps of a migration while the container does not run, as cells.
func down(e cluster.Event) (cells []string) {
	for _, c := range columns {
		var d time.Duration
		for _, s := range e.Migration.Steps {
			if s.Down && slices.ContainsFunc(c.names, func(n string) bool { return s.Step == n || strings.HasPrefix(s.Step, n+" ") }) {
				d += s.Duration
			}
		}
		cells = append(cells, seconds(d))
	}
	return cells
}

func titles(before ...string) []string {
	for _, c := range columns {
		before = append(before, c.title)
	}
	return append(before, "downtime")
}

// bars of downtime, by the first word of the label.
var bars = []struct {
	container, what, bar, plain string
	least                       int64 // bytes that have to travel: later journeys find some of them there
}{
	{"idle", "without memory", "1.5", "2.5", 0},
	{"full", "100 MB of memory", "4", "7.2", 0},
	{"large", "an image of 900 MB, 20 MB changed", "4", "3.5 (approach 1: 21)", 20e6},
}

// sentWhileDown returns the bytes that crossed the network while the container stood still.
func sentWhileDown(e cluster.Event) (bytes int64) {
	for _, s := range e.Migration.Steps {
		if s.Down {
			bytes += max(s.Outcome.Bytes, 0)
		}
	}
	return bytes
}

func (p *page) downtime(events []cluster.Event) {
	p.Line("\n## Downtime\n\nBetween two nodes, image there; the median of the runs, the fastest and the slowest. Bar and plain docker commands (`docker\ncheckpoint create`, `commit`, `push`, `pull`, `start --checkpoint`) as in the project's requirements, for approach 2.\n")
	if len(events) == 0 {
		p.Line("Missing: `lab/c-balancer/downtime.yaml` was not run.")
		return
	}
	p.Numbers("container", "approach", "runs", "median s", "fastest", "slowest", "MB sent", "bar", "plain docker")
	for _, b := range bars {
		for _, approach := range []string{"layer", "commit", "export"} {
			var times []time.Duration
			var bytes int64
			for _, e := range events {
				sent := sentWhileDown(e)
				if strings.HasPrefix(e.Label, b.container+" "+approach) && sent >= b.least {
					times = append(times, e.Migration.Downtime)
					bytes = sent
				}
			}
			if len(times) == 0 {
				continue
			}
			slices.Sort(times)
			bar, plain := b.bar, b.plain
			if approach == "export" {
				bar, plain = "", ""
			}
			p.Row(b.what, approach, strconv.Itoa(len(times)), seconds(times[len(times)/2]), seconds(times[0]), seconds(times[len(times)-1]), megabytes(bytes), bar, plain)
		}
	}
	p.Line("\n`layer` is approach 2 without the registry: the changed layer goes from node to node. `MB sent` is what crossed the network\nwhile the container stood still, in the last run; by commit it is counted twice, to the registry and from it.")
}

func (p *page) steps(events []cluster.Event) {
	p.Line("\n## Figure 7: the steps\n\nSeconds while the container stands still.\n\n![C-Balancer, figure 7: the steps of a migration, by image and approach](migration-steps.svg)\n")
	if len(events) == 0 {
		p.Line("Missing: `lab/c-balancer/fig07.yaml` was not run.")
		return
	}
	p.Numbers(titles("image", "approach")...)
	for _, e := range events {
		image, how, _ := strings.Cut(e.Label, " ")
		if how == "absent" {
			continue
		}
		p.Row(append(append([]string{image, string(e.Migration.Approach)}, down(e)...), seconds(e.Migration.Downtime))...)
	}
	p.Line("")
	p.claim("As in the paper, `commit` takes longest of the steps of approach 2.", exceptions(images(events), func(image string) bool {
		e := labelled(events, image+" present")
		if e == nil {
			return false
		}
		commit, _ := took(*e, "commit")
		for _, c := range columns {
			if other, _ := took(*e, c.names...); c.title != "commit" && other >= commit {
				return false
			}
		}
		return commit > 0
	}))
	p.Line("\nCommit reads the changed files and writes them as a layer: with the disks in memory that is a copy. Push packs the same\n21 MB, takes their digest and sends them, which is work for the CPU and costs the same on any disk. The paper does not say what its disks were.")
}
