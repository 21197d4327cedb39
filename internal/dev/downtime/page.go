// SPDX-License-Identifier: Apache-2.0

// Package paper makes docs/papers/c-balancer/migration.md: what the C-Balancer paper shows of
// single migrations (figures 7 to 9), as `weir lab cluster --json` has measured it here.
//
// It reads the runs c-balancer/downtime, fig07 and fig09 of docs/papers/data and runs nothing
// itself, so the page has no figure that no run has shown; a run that is missing is named.
package paper

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/dev/figures"
	"weir/internal/dev/markdown"
	"weir/internal/lab/cluster"
)

// Folder of the page and its pictures, from the module's root.
const Folder = "docs/papers/c-balancer"

// Runs are the runs that the page is made of.
var Runs = []string{"downtime", "fig07", "fig09"}

// events of a run, none if there is no such run.
func events(r *figures.Run) (list []cluster.Event, err error) {
	if r == nil {
		return nil, nil
	}
	for n, line := range r.Lines {
		var e cluster.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s/%s.jsonl:%d: %w", figures.Folder, r.Name, n+2, err)
		}
		if e.Migration != nil && e.Err == "" {
			list = append(list, e)
		}
	}
	return list, nil
}

// Page is the page and its pictures, by their paths from the module's root, made from the
// data. Nil if none of its runs is there.
func Page(data *figures.Runs) (map[string][]byte, error) {
	runs := map[string][]cluster.Event{}
	var sources []string
	for _, name := range Runs {
		r := data.Run("c-balancer/" + name)
		if r != nil {
			sources = append(sources, fmt.Sprintf("%s: commit %s, Linux %s, %s", name, r.Source.Measured(), r.Source.Kernel, r.Source.Date))
		}
		var err error
		if runs[name], err = events(r); err != nil {
			return nil, err
		}
	}
	if len(sources) == 0 {
		return nil, nil
	}
	p := &page{}
	p.WriteString(head)
	p.Line("* **Measured**: %s.", strings.Join(sources, "; "))
	p.downtime(runs["downtime"])
	p.steps(runs["fig07"])
	p.approaches(runs["fig07"])
	p.checkpoints(runs["fig09"])
	made := map[string][]byte{Folder + "/migration.md": []byte(p.String())}
	for name, picture := range map[string][]byte{
		"steps": plotSteps(runs["fig07"]), "approaches": plotApproaches(runs["fig07"]),
		"checkpoints": plotCheckpoints(runs["fig09"]), "sizes": plotSizes(runs["fig09"]),
	} {
		if picture != nil {
			made[Folder+"/migration-"+name+".svg"] = picture
		}
	}
	return made, nil
}

type page struct{ markdown.Writer }

func seconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", d.Seconds())
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }

// took is the time of a migration's steps that begin with one of the names, and what
// they have sent.
func took(e cluster.Event, names ...string) (d time.Duration, bytes int64) {
	for _, s := range e.Migration.Steps {
		if slices.ContainsFunc(names, func(n string) bool { return s.Step == n || strings.HasPrefix(s.Step, n+" ") }) {
			d += s.Duration
			bytes += max(s.Outcome.Bytes, 0)
		}
	}
	return d, bytes
}

// labelled is the last event with a label.
func labelled(events []cluster.Event, label string) (found *cluster.Event) {
	for i, e := range events {
		if e.Label == label {
			found = &events[i]
		}
	}
	return found
}

// exceptions returns the members of a list for which holds is false.
func exceptions(list []string, holds func(string) bool) (not []string) {
	for _, one := range list {
		if !holds(one) {
			not = append(not, one)
		}
	}
	return not
}

// claim prints a conclusion, and whether it holds: without exceptions.
func (p *page) claim(says string, not []string) {
	if len(not) == 0 {
		p.Line("* %s **Holds**.", says)
		return
	}
	p.Line("* %s **Does not hold**: not for %s.", says, strings.Join(not, ", "))
}

const head = `# The C-Balancer paper: single migrations (figures 7 to 9)

Written by ` + "`make figures`" + ` from [data](../data) of runs of the scenario files in [lab/c-balancer](../../../lab/c-balancer); edits
are lost. The paper is Dhumal and Janakiram, *C-Balancer: A System for Container Profiling and Scheduling*, section II and IV.

* **Nodes** are network namespaces of one machine with a dockerd (20.10) each, 2 CPUs for all; CRIU 4.2.1, runc, overlay2.
* **Disks** of the nodes are in memory, so that the machine's own disk does not count. The lab has first call on the machine's
  CPUs (a cgroup of 256 times the weight); on a machine that does much else the same migrations take several times as long.
* **The network** has no limit, so times are those of the work; bytes say what a link would add (8 s for 100 MB at 100 Mbit/s).
* **The container** counts ten times a second and writes each number into a file: a run in which one is lost or comes twice fails. The images of figures 7
  and 8 are Debian packages, unpacked (scripts/image), with the counter beside them: busybox, redis, a tool chain of C and Go.
* **Again**: ` + "`weir lab cluster --json lab/c-balancer/downtime.yaml`" + `
`
