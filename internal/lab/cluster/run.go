// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/clustertest/counter"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker"
	"weir/internal/policy"
)

// CounterArg is the argument with which this program is the counter: images are made
// of it.
const CounterArg = "__counter"

// diskMiB is the disk of a node whose disk a scenario fills, in memory.
const diskMiB = 1024

// Event is what became of a step of the timeline.
type Event struct {
	Scenario  string          `json:"scenario"`
	At        time.Duration   `json:"at_ns"` // since the start
	Verb      string          `json:"verb"`
	Subject   string          `json:"subject"`
	Label     string          `json:"label,omitempty"`
	To        string          `json:"to,omitempty"`
	Migration *migrate.Result `json:"migration,omitempty"`
	Gap       time.Duration   `json:"gap_ns,omitempty"` // the longest standstill that the counter has seen so far
	Memory    int64           `json:"memory_bytes,omitempty"`
	Rates     []Rate          `json:"rates,omitempty"`
	For       time.Duration   `json:"for_ns,omitempty"` // of a measurement
	Output    string          `json:"output,omitempty"` // of a command, a journal
	Took      time.Duration   `json:"took_ns,omitempty"`
	Err       string          `json:"error,omitempty"`
}

// Failure is an expectation that does not hold.
type Failure struct {
	Subject string // a container, or a step of the timeline
	What    string
}

// Options of a run.
type Options struct {
	Program  string      // file of this program, for images
	Event    func(Event) // told about each step
	Progress func(p migrate.Progress)
	Hold     func(c *clustertest.Cluster) // called before the end, with all still there
	Plot     string                       // folder for a picture of the traffic, "" = none
	Log      *slog.Logger
}

// lab is a scenario that runs.
type lab struct {
	spec Spec
	Options
	*clustertest.Cluster
	began    time.Time
	journals migrate.Journals
	agents   map[string]*migrate.Local
	plane    *plane // nil = nobody steers
	traffic  *receiver

	mu       sync.Mutex
	rates    map[string][]Rate // by the label of the measurement
	captions []caption
	wrong    []Failure                // steps that did not do as they should
	where    map[string]string        // container -> node
	gaps     map[string]time.Duration // container -> the longest
	moves    int
	going    sync.WaitGroup
}

// Run runs a scenario and returns what does not hold. An error means that it could not
// be run.
func Run(ctx context.Context, s Spec, o Options) (failures []Failure, err error) {
	l := &lab{spec: s, Options: o, rates: map[string][]Rate{}, where: map[string]string{}, gaps: map[string]time.Duration{}, agents: map[string]*migrate.Local{}}
	disks := map[string]int{}
	for _, st := range s.Timeline {
		if st.FillDisk != "" {
			disks[st.FillDisk] = diskMiB
		}
	}
	if s.DiskMiB > 0 {
		for _, n := range s.Nodes {
			disks[n] = s.DiskMiB
		}
	}
	nodes := clustertest.Options{Nodes: s.Nodes, DiskMiB: disks}
	if s.Machines == MachinesVM {
		if nodes.Machine, err = machines(ctx, s, o.Program); err != nil {
			return nil, err
		}
		o.Log.Info("booting virtual machines, which takes a minute or two", "machines", len(s.Nodes))
	}
	if l.Cluster, err = clustertest.Start(ctx, nodes); err != nil {
		return nil, err
	}
	defer func() {
		if l.plane != nil {
			err = errors.Join(err, l.plane.stop())
		}
		for _, a := range l.agents {
			err = errors.Join(err, a.Close())
		}
		if l.traffic != nil {
			err = errors.Join(err, l.traffic.close())
		}
		err = errors.Join(err, l.Stop())
	}()
	if err := l.prepare(ctx); err != nil {
		return nil, err
	}
	l.began = time.Now()
	for _, st := range s.Timeline {
		if err := l.wait(ctx, st.At-time.Since(l.began)); err != nil {
			return nil, err
		}
		if st.Background {
			l.going.Go(func() { l.step(ctx, st) })
		} else {
			l.step(ctx, st)
		}
	}
	l.going.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	failures = l.wrong
	for _, e := range s.Expect {
		if what := l.check(ctx, e); what != "" {
			failures = append(failures, Failure{e.Container, what})
		}
	}
	if o.Plot != "" {
		if err := l.draw(); err != nil {
			return nil, err
		}
	}
	if o.Hold != nil {
		o.Hold(l.Cluster)
	}
	return failures, nil
}

func (l *lab) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// prepare makes images and starts containers.
func (l *lab) prepare(ctx context.Context) error {
	l.journals.Dir = filepath.Join(l.Dir, "journals")
	var err error
	if l.traffic, err = listenTraffic(l.Cluster); err != nil {
		return err
	}
	if l.spec.Agents != nil {
		if l.plane, err = startPlane(ctx, l.Cluster, l.Program, *l.spec.Agents); err != nil {
			return err
		}
	}
	for _, n := range l.Nodes() {
		if l.spec.Bandwidth != "" {
			if err := l.Shape(n.Name, l.spec.Bandwidth); err != nil {
				return err
			}
		}
		if l.plane != nil {
			continue
		}
		e, err := docker.Open("unix://" + n.Socket)
		if err != nil {
			return err
		}
		if l.agents[n.Name], err = migrate.NewLocal(n.Name, e, filepath.Join(l.Dir, "agent-"+n.Name), l.Log); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.spec.Containers)) {
		c := l.spec.Containers[name]
		if err := l.image(ctx, l.Node(c.Node), c.Image); err != nil {
			return err
		}
		if c.Start != "later" {
			if err := l.start(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// reference is what an image of the scenario is called.
func reference(image string) string {
	if image == "" {
		return clustertest.CounterImage
	}
	return "lab-" + image + ":1"
}

// image makes an image on a node, if it is not there, as it is on the others.
func (l *lab) image(ctx context.Context, n *clustertest.Node, name string) error {
	ref := reference(name)
	if _, err := n.Docker().ImageInspect(ctx, ref); err == nil {
		return nil
	}
	for _, other := range l.Nodes() {
		if _, err := other.Docker().ImageInspect(ctx, ref); err == nil {
			return clustertest.CopyImage(ctx, other, n, ref)
		}
	}
	spec := l.spec.Images[name]
	if len(spec.Programs) > 0 {
		return n.Import(ctx, ref, spec.Programs...)
	}
	program, entrypoint := l.Program, `["/counter","`+CounterArg+`"]`
	if small := filepath.Join(filepath.Dir(l.Program), "weir-counter"); n.Machine() != nil {
		// The counter alone (make build) is a thirtieth, of which an emulated CPU makes a
		// minute less.
		if _, err := os.Stat(small); err == nil {
			program, entrypoint = small, `["/counter"]`
		}
	}
	if spec.Root != "" {
		return n.ImportCounterInto(ctx, ref, program, filepath.Join(filepath.Dir(l.spec.File), spec.Root), entrypoint)
	}
	return n.ImportCounter(ctx, ref, program, spec.Ballast, entrypoint)
}

func (l *lab) start(ctx context.Context, name string) error {
	c := l.spec.Containers[name]
	n := l.Node(c.Node)
	if err := l.image(ctx, n, c.Image); err != nil {
		return err
	}
	config := &container.Config{Image: reference(c.Image), Cmd: c.Command, Labels: c.Labels, StopSignal: "SIGKILL"}
	if len(c.Command) == 0 {
		config.Cmd = []string{fmt.Sprintf("mib=%d", c.Memory), fmt.Sprintf("files=%d", c.Files)}
	}
	if c.Send != "" {
		bps, err := policy.ParseRate(c.Send)
		if err != nil {
			return err
		}
		config.Cmd = append(config.Cmd, fmt.Sprintf("send=%s,%d,%s", name, bps, l.traffic.address()))
	}
	// Root of this machine may not raise limits, so they are given.
	made, err := n.Docker().ContainerCreate(ctx, config, &container.HostConfig{Binds: c.Volumes}, nil, nil, name)
	if err != nil {
		return fmt.Errorf("container %s: %w", name, err)
	}
	if err := n.Docker().ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return fmt.Errorf("container %s: %w", name, err)
	}
	l.set(name, c.Node)
	if len(c.Command) > 0 {
		err = l.wait(ctx, time.Second)
	} else {
		err = l.counts(ctx, n, name)
	}
	if err == nil && l.plane != nil {
		err = l.plane.knows(ctx, name)
	}
	return err
}

// countLimit is how long a counter may take to make its memory and files.
const countLimit = 3 * time.Minute

// counts waits until a counter counts.
func (l *lab) counts(ctx context.Context, n *clustertest.Node, name string) error {
	ctx, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	err := poll(ctx, func() (bool, error) {
		if count, err := n.Count(ctx, name); err == nil && count.Last > 1 {
			return true, nil
		}
		if r, err := n.Docker().ContainerInspect(ctx, name); err == nil && !r.State.Running {
			said := n.Said(ctx, name)
			return false, fmt.Errorf("it has ended with status %d: %s", r.State.ExitCode, cmp.Or(said, r.State.Error, "it said nothing"))
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("container %s does not count: %w", name, err)
	}
	return nil
}

func (l *lab) set(name, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.where[name] = node
}

// place is the node that a container is on, by the lab's books; where a manager moves
// containers, by looking.
func (l *lab) place(ctx context.Context, name string) string {
	if l.plane != nil {
		for _, n := range l.Nodes() {
			if names, err := n.Running(ctx); err == nil && slices.Contains(names, name) {
				l.set(name, n.Name)
				return n.Name
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.where[name]
}

// step takes a step and tells what became of it.
func (l *lab) step(ctx context.Context, st Step) {
	e := Event{Scenario: l.spec.Name, At: time.Since(l.began), Verb: st.verbs()[0], Label: st.Label, To: st.To}
	if err := l.take(ctx, st, &e); err != nil {
		e.Err = err.Error()
	}
	e.Took = time.Since(l.began) - e.At
	if l.Event != nil {
		l.Event(e)
	}
}

func (l *lab) take(ctx context.Context, st Step, e *Event) error {
	on := func(name string, f func(*clustertest.Node) error) error {
		e.Subject = name
		return f(l.Node(name))
	}
	if st.During != nil {
		if err := l.plane.reached(ctx, *st.During); err != nil {
			return l.fail(st, err)
		}
	}
	if st.Await == "" {
		l.caption(st)
	}
	switch {
	case st.Say != "":
		e.Output = st.Say
		return nil
	case st.Measure > 0:
		return l.measure(ctx, st, e)
	case st.Weir != "":
		return l.weir(ctx, st, e)
	case st.Await != "":
		e.Subject = st.Await
		return l.await(ctx, st)
	case st.KillAgent != "":
		e.Subject = st.KillAgent
		l.plane.kill(st.KillAgent)
		return nil
	case st.StartAgent != "":
		e.Subject = st.StartAgent
		return l.plane.start(st.StartAgent)
	case st.Manager == "kill":
		e.Subject = st.Manager
		l.plane.kill("")
		return nil
	case st.Manager == "start":
		e.Subject = st.Manager
		return l.plane.start("")
	case st.Journal != "":
		e.Subject = st.Journal
		var err error
		e.Output, err = l.plane.journal(st.Journal)
		return err
	case st.Start != "":
		e.Subject = st.Start
		return l.start(ctx, st.Start)
	case st.Remove != "":
		e.Subject = st.Remove
		return l.Node(l.place(ctx, st.Remove)).Remove(ctx, st.Remove)
	case st.Migrate != "":
		e.Subject = st.Migrate
		return l.migrate(ctx, st, e)
	case st.Checkpoint != "":
		e.Subject = st.Checkpoint
		return l.checkpoint(ctx, st.Checkpoint, e)
	case st.Cut != "":
		e.Subject = st.Cut
		return l.Cut(st.Cut)
	case st.Join != "":
		e.Subject = st.Join
		return l.Join(st.Join)
	case st.KillEngine != "":
		return on(st.KillEngine, func(n *clustertest.Node) error { return n.KillEngine(ctx) })
	case st.StartNode != "":
		return on(st.StartEngine, func(n *clustertest.Node) error { return n.StartEngine(ctx) })
	case st.KillNode != "":
		return on(st.KillNode, func(n *clustertest.Node) error { return n.Machine().PowerOff() })
	case st.StartNode != "":
		return on(st.StartNode, func(n *clustertest.Node) error {
			if err := n.Machine().PowerOn(ctx); err != nil {
				return err
			}
			return l.plane.again(ctx, n.Name)
		})
	case st.FillDisk != "":
		return on(st.FillDisk, (*clustertest.Node).FillDisk)
	case st.FreeDisk != "":
		return on(st.FreeDisk, (*clustertest.Node).FreeDisk)
	case st.BreakCRIU != "":
		return on(st.BreakCRIU, (*clustertest.Node).BreakCRIU)
	case st.MendCRIU != "":
		return on(st.MendCRIU, (*clustertest.Node).MendCRIU)
	case st.Registry == "stop":
		e.Subject = st.Registry
		return l.StopRegistry()
	case st.Registry == "start":
		e.Subject = st.Registry
		return l.StartRegistry()
	}
	return l.wait(ctx, st.Wait)
}

func (l *lab) id() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moves++
	return fmt.Sprintf("lab-%d", l.moves)
}

func (l *lab) migrate(ctx context.Context, st Step, e *Event) error {
	if l.plane != nil {
		r, err := l.plane.migrate(ctx, st)
		if r.State != "" { // it was begun
			e.Migration = &r
		}
		if c, failed := l.count(ctx, st.Migrate); failed == nil {
			e.Gap = c.Gap
		}
		return err
	}
	from := l.place(ctx, st.Migrate)
	source, target := l.agents[from], l.agents[st.To]
	p, err := migrate.Check(ctx, source, target, migrate.Request{Move: l.id(), Container: st.Migrate, Approach: st.Approach, Registry: l.Registry})
	if err != nil {
		return err
	}
	if err := p.Err(); err != nil {
		return err
	}
	j, err := l.journals.Begin(p.Order)
	if err != nil {
		return err
	}
	defer j.Close()
	r, err := migrate.Run(ctx, source, target, j, l.Progress)
	e.Migration = &r
	if err != nil {
		return err
	}
	if r.State == migrate.StateDone {
		l.set(st.Migrate, st.To)
	}
	if c, err := l.count(ctx, st.Migrate); err == nil {
		e.Gap = c.Gap
	}
	return nil
}

// count reads a counter's file a moment later; programs that do not count have none.
func (l *lab) count(ctx context.Context, name string) (counter.Count, error) {
	if len(l.spec.Containers[name].Command) > 0 {
		return counter.Count{}, fmt.Errorf("%s does not count", name)
	}
	if err := l.wait(ctx, 3*counter.Tick); err != nil {
		return counter.Count{}, err
	}
	c, err := l.Node(l.place(ctx, name)).Count(ctx, name)
	if err == nil {
		l.mu.Lock()
		l.gaps[name] = c.Gap
		l.mu.Unlock()
	}
	return c, err
}

// checkpoint freezes a container, packs its checkpoint, and brings it back.
func (l *lab) checkpoint(ctx context.Context, name string, e *Event) error {
	n := l.agents[l.place(ctx, name)]
	c, err := n.Describe(ctx, name)
	if err != nil {
		return err
	}
	o := migrate.Order{Move: l.id(), Container: c, From: n.Name(), To: n.Name(), Approach: migrate.ApproachLayer}
	e.Memory = c.MemoryBytes
	r := migrate.Result{Move: o.Move, State: migrate.StateRolledBack}
	do := func(step string, f func() (migrate.Outcome, error)) error {
		began := time.Now()
		out, err := f()
		r.Steps = append(r.Steps, migrate.Progress{Move: o.Move, Node: n.Name(), Step: step, Done: true, Outcome: out, Duration: time.Since(began)})
		return err
	}
	err = do("freeze", func() (migrate.Outcome, error) { return n.Do(ctx, migrate.StepFreeze, o) })
	if err == nil {
		p := migrate.Part{Kind: migrate.PartCheckpoint}
		err = do("send checkpoint", func() (migrate.Outcome, error) { return n.Send(ctx, p, o, io.Discard) })
	}
	err = errors.Join(err, do("thaw", func() (migrate.Outcome, error) { return n.Do(ctx, migrate.StepThaw, o) }))
	e.Migration = &r
	return err
}

// check says what of an expectation does not hold, "" if all does.
func (l *lab) check(ctx context.Context, e Expectation) string {
	if e.On != "" {
		for _, n := range l.Nodes() {
			names, err := n.Running(ctx)
			if err != nil {
				return err.Error()
			}
			if runs := slices.Contains(names, e.Container); runs != (n.Name == e.On) {
				return fmt.Sprintf("on %s it runs: %v", n.Name, runs)
			}
		}
	}
	if e.Measure != "" {
		if what := l.checkRate(e); what != "" {
			return what
		}
	}
	if e.Exact || e.Downtime > 0 {
		c, err := l.count(ctx, e.Container)
		switch {
		case err != nil:
			return err.Error()
		case e.Exact && (c.First != 0 || c.Starts != 1):
			return fmt.Sprintf("it began %d times", c.Starts)
		case e.Downtime > 0 && c.Gap > e.Downtime:
			return fmt.Sprintf("it stood still for %v", c.Gap.Round(time.Millisecond))
		}
	}
	return ""
}

// Program is the file of this program.
func Program() (string, error) { return os.Executable() }
