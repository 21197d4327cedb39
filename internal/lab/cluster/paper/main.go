// SPDX-License-Identifier: Apache-2.0

// Package paper makes docs/papers/c-balancer/migration.md: what the C-Balancer paper shows of
// single migrations (figures 7 to 9), as `weir lab cluster --json` has measured it here.
//
// It reads the runs c-balancer/downtime, fig07 and fig09 of docs/papers/data and runs nothing
// itself, so the page has no figure that no run has shown; a run that is missing is named.
package paper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/color"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	_ "gonum.org/v1/plot/vg/vgsvg" // SVG

	"weir/internal/lab/cluster"
	"weir/internal/lab/figures"
)

// Folder of the page and its pictures, from the module's root.
const Folder = "docs/papers/c-balancer"

// Runs are those that the page is made of.
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
func Page(data *figures.Data) (map[string][]byte, error) {
	runs := map[string][]cluster.Event{}
	var sources []string
	for _, name := range Runs {
		r := data.Run("c-balancer/" + name)
		if r != nil {
			sources = append(sources, fmt.Sprintf("%s: commit `%.12s`, Linux %s, %s", name, r.Source.Commit, r.Source.Kernel, r.Source.Date))
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
	p.line("* **Measured**: %s.", strings.Join(sources, "; "))
	p.downtime(runs["downtime"])
	p.steps(runs["fig07"])
	p.approaches(runs["fig07"])
	p.checkpoints(runs["fig09"])
	made := map[string][]byte{Folder + "/migration.md": []byte(p.String())}
	for _, picture := range []struct {
		name string
		plot *plot.Plot
	}{
		{"steps", plotSteps(runs["fig07"])}, {"approaches", plotApproaches(runs["fig07"])}, {"checkpoints", plotCheckpoints(runs["fig09"])},
	} {
		if picture.plot == nil {
			continue
		}
		canvas, err := picture.plot.WriterTo(9*vg.Inch, 4*vg.Inch, "svg")
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if _, err := canvas.WriteTo(&b); err != nil {
			return nil, err
		}
		made[Folder+"/migration-"+picture.name+".svg"] = b.Bytes()
	}
	return made, nil
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
	p.line("\n## Figure 7: the steps\n\nSeconds while the container stands still.\n\n![Steps](migration-steps.svg)\n")
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
	p.line("")
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

// exceptions are those of a list of which something is not true.
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
		p.line("* %s **Holds**.", says)
		return
	}
	p.line("* %s **Does not hold**: not for %s.", says, strings.Join(not, ", "))
}

func (p *page) approaches(events []cluster.Event) {
	p.line("\n## Figure 8: the approaches\n\nSeconds to bring the file system over, and megabytes that were sent for it: approach 1 exports all of it; approach 2 with the\nimage's layers neither in the registry nor on the target, and with them; and the changed layer alone. Absent layers travel twice.\nWhat goes before the container is frozen costs no downtime here.\n\n![Approaches](migration-approaches.svg)\n")
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
	slower := func(one, other string) func(string) bool {
		return func(image string) bool {
			a, b := labelled(events, image+" "+one), labelled(events, image+" "+other)
			if a == nil || b == nil {
				return false
			}
			long, _ := files(*a)
			short, _ := files(*b)
			return long > short
		}
	}
	p.line("")
	p.claim("As in the paper, approach 2 is the slowest while layers are absent.", exceptions(images(events), slower("absent", "export")))
	p.claim("As in the paper, approach 2 is faster than approach 1 once they are there.", exceptions(images(events), slower("export", "present")))
	p.claim("The changed layer alone is the fastest.", exceptions(images(events), slower("present", "layer")))
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
	p.line("\n## Figure 9: the checkpoint\n\nPrograms of stress-ng with 1 to 8 workers: time to freeze (runc and CRIU), size of the checkpoint, and what is left of it packed with\nzstd. The paper's time is of `docker checkpoint create`, and Docker copies what CRIU has written twice more.\n\n![Checkpoints](migration-checkpoints.svg)\n")
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
	p.line("")
	packed := func(programs string, pays bool) []string {
		var labels []string
		for _, e := range events {
			if program, _, _ := strings.Cut(e.Label, " "); strings.Contains(programs, program) {
				labels = append(labels, e.Label)
			}
		}
		return exceptions(labels, func(label string) bool {
			e := labelled(events, label)
			_, sent := took(*e, "send checkpoint")
			return (float64(sent) <= float64(raw(*e))/2) == pays
		})
	}
	p.claim("As in the paper, the size follows the memory: more of it, a larger checkpoint.", notGrowing(events))
	p.claim("Packing leaves half or less where memory is alike (rgb, cache, vm).", packed("rgb cache vm memory", true))
	p.claim("It leaves more than half of random numbers (bsearch, qsort).", packed("bsearch qsort", false))
}

// notGrowing are the runs whose checkpoint is no larger than that of the same program with
// fewer workers or less memory, in the order in which they were run.
func notGrowing(events []cluster.Event) (not []string) {
	last := map[string]int64{}
	for _, e := range events {
		program, _, _ := strings.Cut(e.Label, " ")
		if raw(e) <= last[program] {
			not = append(not, e.Label)
		}
		last[program] = raw(e)
	}
	return not
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

// plotSteps draws stacked bars, as the paper's figure 7.
func plotSteps(events []cluster.Event) *plot.Plot {
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
			return nil // no values
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
	return p
}

// plotApproaches draws groups of bars, as the paper's figure 8.
func plotApproaches(events []cluster.Event) *plot.Plot {
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
			return nil // no values
		}
		bar.Color, bar.LineStyle.Width = colours[i], 0
		bar.Offset = width * vg.Length(float64(i)-1.5)
		p.Add(bar)
		p.Legend.Add(how, bar)
	}
	p.NominalX(list...)
	return p
}

// plotCheckpoints draws the time to freeze against workers, as the paper's figure 9.
func plotCheckpoints(events []cluster.Event) *plot.Plot {
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
			return nil // no values
		}
		line.Color, marks.Color = colours[i], colours[i]
		p.Add(line, marks)
		p.Legend.Add(program, line, marks)
	}
	return p
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
