// SPDX-License-Identifier: Apache-2.0

// Paper writes docs/papers/c-balancer/migration.md: what the C-Balancer paper shows of
// single migrations (figures 7 to 9), as `weir lab cluster --json` has measured it here.
//
//	go run ./internal/lab/cluster/paper out/papers/c-balancer docs/papers/c-balancer
//
// It reads downtime.jsonl, fig07.jsonl and fig09.jsonl and runs nothing itself, so the
// page has no figure that no run has shown; a run that is missing is named.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"weir/internal/lab/cluster"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "Usage: paper RAW PAGES, such as out/papers/c-balancer docs/papers/c-balancer")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "paper:", err)
		os.Exit(1)
	}
}

// read returns the events of a run, none if there was no such run.
func read(file string) (list []cluster.Event, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var e cluster.Event
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if e.Migration != nil && e.Err == "" {
			list = append(list, e)
		}
	}
	return list, s.Err()
}

func write(raw, pages string) error {
	runs := map[string][]cluster.Event{}
	for _, name := range []string{"downtime", "fig07", "fig09"} {
		var err error
		if runs[name], err = read(filepath.Join(raw, name+".jsonl")); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(pages, 0o755); err != nil {
		return err
	}
	p := &page{}
	p.WriteString(head)
	p.downtime(runs["downtime"])
	p.steps(runs["fig07"])
	p.approaches(runs["fig07"])
	p.checkpoints(runs["fig09"])
	if err := plots(pages, runs); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(pages, "migration.md"), []byte(p.String()), 0o644)
}

type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) table(head ...string) {
	p.row(head...)
	p.line("|---|%s", strings.Repeat("---:|", len(head)-1))
}

func (p *page) row(cells ...string) { p.line("| %s |", strings.Join(cells, " | ")) }

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

// sentWhileDown is what crossed the network while the container stood still.
func sentWhileDown(e cluster.Event) (bytes int64) {
	for _, s := range e.Migration.Steps {
		if s.Down {
			bytes += max(s.Outcome.Bytes, 0)
		}
	}
	return bytes
}

func (p *page) downtime(events []cluster.Event) {
	p.line("\n## Downtime\n\nBetween two nodes, image there; the median of the runs, the fastest and the slowest. Bar and plain docker commands (`docker\ncheckpoint create`, `commit`, `push`, `pull`, `start --checkpoint`) as in the project's requirements, for approach 2.\n")
	if len(events) == 0 {
		p.line("Missing: `lab/c-balancer/downtime.yaml` was not run.")
		return
	}
	p.table("container", "approach", "runs", "median s", "fastest", "slowest", "MB sent", "bar", "plain docker")
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
			p.row(b.what, approach, strconv.Itoa(len(times)), seconds(times[len(times)/2]), seconds(times[0]), seconds(times[len(times)-1]), megabytes(bytes), bar, plain)
		}
	}
	p.line("\n`layer` is approach 2 without the registry: the changed layer goes from node to node. `MB sent` is what crossed the network\nwhile the container stood still, in the last run; by commit it is counted twice, to the registry and from it.")
}

func (p *page) steps(events []cluster.Event) {
	p.line("\n## Figure 7: the steps\n\nSeconds while the container stands still. In the paper `commit` takes longest.\n\n![Steps](migration-steps.svg)\n")
	if len(events) == 0 {
		p.line("Missing: `lab/c-balancer/fig07.yaml` was not run.")
		return
	}
	p.table(titles("image", "approach")...)
	for _, e := range events {
		image, how, _ := strings.Cut(e.Label, " ")
		if how == "absent" {
			continue
		}
		p.row(append(append([]string{image, string(e.Migration.Approach)}, down(e)...), seconds(e.Migration.Downtime))...)
	}
}

func (p *page) approaches(events []cluster.Event) {
	p.line("\n## Figure 8: the approaches\n\nSeconds to bring the file system over, and megabytes that were sent for it: approach 1 exports all of it; approach 2 with the\nimage's layers neither in the registry nor on the target, and with them; and the changed layer alone. As in the paper, approach 2\nis the slowest while layers are absent, since they travel twice, and the fastest of the paper's once they are there. What goes before\nthe container is frozen costs no downtime here.\n\n![Approaches](migration-approaches.svg)\n")
	if len(events) == 0 {
		p.line("Missing: `lab/c-balancer/fig07.yaml` was not run.")
		return
	}
	p.table("image", "1: export", "2: layers absent", "2: layers present", "layer")
	for _, image := range images(events) {
		row := []string{image}
		for _, how := range hows {
			cell := ""
			for _, e := range events {
				if e.Label == image+" "+how {
					d, bytes := files(e)
					cell = fmt.Sprintf("%s s, %s MB", seconds(d), megabytes(bytes))
				}
			}
			row = append(row, cell)
		}
		p.row(row...)
	}
}

var hows = []string{"export", "absent", "present", "layer"}

// files is what bringing the file system over took.
func files(e cluster.Event) (time.Duration, int64) {
	return took(e, "push-image", "pull-image", "commit", "push", "pull", "send image", "send export", "send layer")
}

func images(events []cluster.Event) (list []string) {
	for _, e := range events {
		image, _, _ := strings.Cut(e.Label, " ")
		if !slices.Contains(list, image) {
			list = append(list, image)
		}
	}
	return list
}

func (p *page) checkpoints(events []cluster.Event) {
	p.line("\n## Figure 9: the checkpoint\n\nPrograms of stress-ng with 1 to 8 workers: time to freeze (runc and CRIU), size of the checkpoint, and what is left of it packed with\nzstd. As in the paper, the size follows the memory. Packing pays where memory is alike (rgb, cache, vm) and not for random numbers\n(bsearch, qsort). The paper's time, by `docker checkpoint create`, rises much faster, since Docker copies what CRIU has written twice more.\n\n![Checkpoints](migration-checkpoints.svg)\n")
	if len(events) == 0 {
		p.line("Missing: `lab/c-balancer/fig09.yaml` was not run.")
		return
	}
	p.table("program", "workers", "freeze s", "checkpoint MB", "packed MB", "packed in s", "restored in s")
	for _, e := range events {
		program, workers, _ := strings.Cut(e.Label, " ")
		if program == ofMemory {
			program, workers = "vm of "+workers+" MB", "1"
		}
		freeze, _ := took(e, "freeze")
		thaw, _ := took(e, "thaw")
		sent, packed := took(e, "send checkpoint")
		p.row(program, workers, seconds(freeze), megabytes(raw(e)), megabytes(packed), seconds(sent), seconds(thaw))
	}
}

// ofMemory is the program that runs with different amounts of memory, not of workers.
const ofMemory = "memory"

// raw is the size of a checkpoint.
func raw(e cluster.Event) int64 {
	for _, s := range e.Migration.Steps {
		if s.Step == "freeze" {
			return s.Outcome.Raw
		}
	}
	return 0
}

var colours = []color.RGBA{{0x1f, 0x77, 0xb4, 255}, {0xff, 0x7f, 0x0e, 255}, {0x2c, 0xa0, 0x2c, 255}, {0xd6, 0x27, 0x28, 255}, {0x94, 0x67, 0xbd, 255}, {0x8c, 0x56, 0x4b, 255}, {0x7f, 0x7f, 0x7f, 255}, {0x17, 0xbe, 0xcf, 255}}

func plots(folder string, runs map[string][]cluster.Event) error {
	return errors.Join(
		plotSteps(filepath.Join(folder, "migration-steps.svg"), runs["fig07"]),
		plotApproaches(filepath.Join(folder, "migration-approaches.svg"), runs["fig07"]),
		plotCheckpoints(filepath.Join(folder, "migration-checkpoints.svg"), runs["fig09"]),
	)
}

// plotSteps draws stacked bars, as the paper's figure 7.
func plotSteps(file string, events []cluster.Event) error {
	p := plot.New()
	p.Y.Label.Text = "seconds"
	p.Legend.Top, p.Legend.Left = true, true
	var names []string
	values := make([]plotter.Values, len(columns))
	for _, e := range events {
		image, how, _ := strings.Cut(e.Label, " ")
		if how == "absent" {
			continue
		}
		names = append(names, image+"\n"+how)
		for i, cell := range down(e) {
			v, _ := strconv.ParseFloat(cell, 64) // "" is 0
			values[i] = append(values[i], v)
		}
	}
	if len(names) == 0 {
		return nil
	}
	var below *plotter.BarChart
	for i, v := range values {
		bar, err := plotter.NewBarChart(v, vg.Points(24))
		if err != nil {
			return err
		}
		bar.Color, bar.LineStyle.Width = colours[i], 0
		if below != nil {
			bar.StackOn(below)
		}
		below = bar
		p.Add(bar)
		p.Legend.Add(columns[i].title, bar)
	}
	p.NominalX(names...)
	return p.Save(9*vg.Inch, 4*vg.Inch, file)
}

// plotApproaches draws groups of bars, as the paper's figure 8.
func plotApproaches(file string, events []cluster.Event) error {
	list := images(events)
	if len(list) == 0 {
		return nil
	}
	p := plot.New()
	p.Y.Label.Text = "seconds"
	p.Legend.Top, p.Legend.Left = true, true
	width := vg.Points(18)
	for i, how := range hows {
		values := make(plotter.Values, len(list))
		for k, image := range list {
			for _, e := range events {
				if e.Label == image+" "+how {
					d, _ := files(e)
					values[k] = d.Seconds()
				}
			}
		}
		bar, err := plotter.NewBarChart(values, width)
		if err != nil {
			return err
		}
		bar.Color, bar.LineStyle.Width = colours[i], 0
		bar.Offset = width * vg.Length(float64(i)-1.5)
		p.Add(bar)
		p.Legend.Add(how, bar)
	}
	p.NominalX(list...)
	return p.Save(8*vg.Inch, 4*vg.Inch, file)
}

// plotCheckpoints draws the time to freeze against workers, as the paper's figure 9.
func plotCheckpoints(file string, events []cluster.Event) error {
	if len(events) == 0 {
		return nil
	}
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text, p.Y.Min = "workers", "seconds to freeze", 0
	p.Legend.Top, p.Legend.Left = true, true
	for i, program := range slices.DeleteFunc(images(events), func(p string) bool { return p == ofMemory }) {
		var points plotter.XYs
		for _, e := range events {
			name, workers, _ := strings.Cut(e.Label, " ")
			if n, err := strconv.Atoi(workers); err == nil && name == program {
				d, _ := took(e, "freeze")
				points = append(points, plotter.XY{X: float64(n), Y: d.Seconds()})
			}
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, marks.Color = colours[i], colours[i]
		p.Add(line, marks)
		p.Legend.Add(program, line, marks)
	}
	return p.Save(7*vg.Inch, 4*vg.Inch, file)
}

const head = `# The C-Balancer paper: single migrations (figures 7 to 9)

Written by ` + "`go run ./internal/lab/cluster/paper`" + ` from runs of the scenario files in [lab/c-balancer](../../../lab/c-balancer); edits
are lost. The paper is Dhumal and Janakiram, *C-Balancer: A System for Container Profiling and Scheduling*, section II and IV.

* **Nodes** are network namespaces of one machine with a dockerd (20.10) each, 2 CPUs for all; CRIU 4.2.1, runc, overlay2.
* **Disks** of the nodes are in memory, so that the machine's own disk does not count. The lab has first call on the machine's
  CPUs (a cgroup of 256 times the weight); on a machine that does much else the same migrations take several times as long.
* **The network** has no limit, so times are those of the work; bytes say what a link would add (8 s for 100 MB at 100 Mbit/s).
* **The container** counts ten times a second and writes each number into a file: none was lost or came twice. The images of figures 7
  and 8 are Debian packages, unpacked (scripts/image), with the counter beside them: busybox, redis, a tool chain of C and Go.
* **Again**: ` + "`weir lab cluster --json lab/c-balancer/downtime.yaml`" + `
`
