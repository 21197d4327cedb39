// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"weir/internal/base/verdict"
	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker"
	"weir/internal/core/policy"
)

// CounterArg is the argument with which weir-lab is the counter: images are made of it.
const CounterArg = "__counter"

// diskMiB is the disk of a node whose disk a scenario fills, in memory.
const diskMiB = 1024

// Event is the outcome of a step of the timeline.
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
	Program  string                // file of weir-lab, for images
	Weir     string                // file of weir, which agents and manager run; "" = the scenario has none
	Event    func(Event)           // told about each step
	Verdict  func(verdict.Verdict) // told about each expectation at the end; nil = is not
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
	plane    *plane // the agents; nil = no agent runs
	traffic  *receiver

	mu       sync.Mutex
	rates    map[string][]Rate // by the label of the measurement
	captions []caption
	wrong    []Failure                // steps that did not do as they should
	where    map[string]string        // container -> node
	gaps     map[string]time.Duration // container -> the longest
	moved    []Event                  // every migration of the timeline, as it ended
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
	if s.virtual() {
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
	for i, e := range s.Expect {
		f := l.check(ctx, e)
		if f.wrong != "" {
			failures = append(failures, Failure{e.subject(), f.wrong})
		}
		if o.Verdict != nil {
			o.Verdict(s.verdict(i, f))
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
		if l.plane, err = startPlane(ctx, l.Cluster, l.Weir, *l.spec.Agents); err != nil {
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

// reference returns the name of an image of the scenario.
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
