// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/base/cgroup"
	"weir/internal/base/retry"
	"weir/internal/core/workload"
	"weir/internal/host/discover/capable"
	"weir/internal/host/discover/engine"
	"weir/internal/host/discover/unheard"
	"weir/internal/host/discover/within"
)

const (
	firstRetry  = 50 * time.Millisecond // a local socket costs little to try
	lastRetry   = time.Second           // what a container may wait for its mark after the engine is back
	listTimeout = 10 * time.Second
	lookTimeout = 30 * time.Second // an inspect waits for a start in progress
	lookers     = 16               // inspects at a time
	// patience is the time for which the first list of a session waits for containers
	// that do not answer; they follow later.
	patience = 2 * time.Second
)

// Docker is a Source of the containers that a Docker engine runs.
//
// While the engine is away, the containers last seen stay on the list for as
// long as their processes live. Nothing is reported before the engine has
// answered for the first time: an empty list would say that there are no
// containers, which only the engine can tell.
type Docker struct {
	log    *slog.Logger
	links  linkTable
	engine engine.Engine
	proc   string // "/proc"
	// cgroups and kinds ask the kernel; tests put fakes in their place.
	cgroups func() cgroup.Hierarchy
	kinds   func(netns string) ([]within.Device, error)
	absence absence

	mu    sync.Mutex
	state workload.SourceState
	note  string
}

// NewDocker returns a Source for the engine at host, e.g.
// "unix:///var/run/docker.sock"; "" means DOCKER_HOST, or the default socket.
// The engine need not run yet. Processes are looked up in /proc, so the caller
// has to be in the host's pid namespace.
func NewDocker(log *slog.Logger, links *Links, host string) (*Docker, error) {
	e, err := engine.NewDocker(host)
	if err != nil {
		return nil, fmt.Errorf("docker engine %q: %w", host, err)
	}
	d := newDocker(log, links, e, "/proc")
	d.absence = absenceOf(e.Address())
	return d, nil
}

func newDocker(log *slog.Logger, links linkTable, e engine.Engine, proc string) *Docker {
	d := &Docker{log: log, links: links, engine: e, proc: proc, cgroups: cgroup.Read, kinds: within.Devices}
	d.setStatus(workload.SourceUnavailable, "not asked yet")
	return d
}

// Name returns "docker".
func (d *Docker) Name() string { return workload.KindDocker }

// Status returns workload.SourceOK, or another state with the reason.
func (d *Docker) Status() (state workload.SourceState, note string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state, d.note
}

func (d *Docker) setStatus(state workload.SourceState, note string) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed = d.state != state
	d.state, d.note = state, note
	return changed
}

// Run reports the running containers until ctx ends.
func (d *Docker) Run(ctx context.Context, report func([]Workload)) error {
	defer d.engine.Close()
	changes, stop := d.links.Watch()
	defer stop()
	w := &dockerRun{Docker: d, roster: newRoster(), changes: changes, out: reporter{report: report}}
	w.timer = time.NewTimer(time.Hour)
	defer w.timer.Stop()
	pauses := retry.New(firstRetry, lastRetry)
	for {
		if none := w.absence.noEngine(); none != "" && !w.answered {
			if d.setStatus(workload.SourceNone, none) {
				d.log.Info("containers are looked for once there is an engine", "why", none)
			}
			if err := w.pause(ctx, lastRetry); err != nil {
				return err
			}
			continue
		}
		answered, err := w.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if answered {
			w.answered = true
			pauses.Reset()
		}
		if mute := (unheard.Error{}); errors.As(err, &mute) {
			d.log.Warn("docker engine does not tell what happens, following it anew", "engine", d.engine.Address(), "err", err)
			continue // a list comes before the next such error
		}
		d.setStatus(workload.SourceUnavailable, d.trouble(err))
		if !w.away { // said once, not at every try; the event source-lost is the warning
			d.log.Info("docker engine does not answer, trying again", "engine", d.engine.Address(), "err", err)
		}
		if err := w.pause(ctx, pauses.Next()); err != nil {
			return err
		}
	}
}

// trouble returns an error of the engine's with its address; the client's own errors have
// the address mostly, not always.
func (d *Docker) trouble(err error) string {
	if text := err.Error(); strings.Contains(text, d.engine.Address()) {
		return text
	}
	return fmt.Sprintf("%s: %v", d.engine.Address(), err)
}

// dockerRun is the state of one Run.
type dockerRun struct {
	*Docker
	roster  *roster
	changes <-chan struct{} // of devices
	out     reporter
	timer   *time.Timer // runs while dirty
	dirty   bool        // the list may have changed
	away    bool        // the engine does not answer
	ready   bool        // the engine has answered once, and its containers are known

	answered bool // the engine has answered once
	lists    unheard.Lists
}

// answer is the engine's answer to a question.
type answer struct {
	question question
	id       string
	info     engine.Container
	err      error
}

// session follows the engine until it fails. answered says whether it worked at all.
func (w *dockerRun) session(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	events, failed := w.engine.Events(ctx)
	running, err := w.running(ctx, failed)
	if err != nil {
		return false, err
	}
	if w.setStatus(workload.SourceOK, "") {
		w.log.Info("docker engine answers", "engine", w.engine.Address(), "containers", len(running))
	}
	w.away = false
	answers := make(chan answer)
	slots := make(chan struct{}, lookers)
	ask := func(q question, id string) {
		if q == nothing {
			return
		}
		asking.Go(func() { w.ask(ctx, q, id, slots, answers) })
	}
	open := map[string]bool{} // asked for at the beginning, not answered yet
	for _, id := range w.roster.connected(running) {
		open[id] = true
		ask(inspect, id)
	}
	giveUp, listed := time.After(patience), make(chan unheard.Listing)
	listSoon := time.NewTimer(unheard.Every)
	defer listSoon.Stop()
	for {
		if len(open) == 0 && !w.ready {
			w.ready = true
			w.touch()
		}
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case err := <-failed:
			return true, err
		case <-giveUp:
			clear(open)
		case e := <-events:
			ask(w.roster.event(e, time.Now()), e.Container)
			w.touch()
		case a := <-answers:
			delete(open, a.id)
			again, err := w.take(a)
			if err != nil {
				return true, err
			}
			ask(again, a.id)
			w.touch()
		case <-listSoon.C:
			asking.Go(func() { unheard.List(ctx, w.engine, listed) })
		case l := <-listed:
			next, err := w.compare(l)
			if err != nil {
				return true, err
			}
			listSoon.Reset(next)
		case <-w.changes:
			w.touch()
		case <-w.timer.C:
			w.refresh()
		}
	}
}

// running lists the containers, unless the stream of events has failed already.
func (w *dockerRun) running(ctx context.Context, failed <-chan error) ([]engine.Container, error) {
	select {
	case err := <-failed:
		return nil, err
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return w.engine.Running(ctx)
}

// pause waits before the engine is tried again. Devices are followed meanwhile,
// since containers come and go without the engine's answering.
func (w *dockerRun) pause(ctx context.Context, length time.Duration) error {
	if !w.away {
		w.away = true
		w.roster.disconnected(time.Now())
		w.touch()
	}
	over := time.After(length)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return nil
		case <-w.changes:
			w.touch()
		case <-w.timer.C:
			w.refresh()
		}
	}
}

// ask puts a question to the engine and the answer on the channel. Summaries do
// not queue behind inspects, which may wait for a slow start.
func (w *dockerRun) ask(ctx context.Context, q question, id string, slots chan struct{}, answers chan<- answer) {
	a := answer{question: q, id: id}
	if q == summary {
		a.info, a.err = w.engine.Summary(ctx, id)
	} else {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return
		}
		limited, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		a.info, a.err = w.engine.Inspect(limited, id)
	}
	select {
	case answers <- a:
	case <-ctx.Done():
	}
}

// take hands an answer to the roster. An error means that the engine is out of
// order, not the container.
func (w *dockerRun) take(a answer) (again question, err error) {
	switch {
	case errors.Is(a.err, engine.ErrNoContainer) && a.question == summary:
		w.roster.unlisted(a.id)
		return nothing, nil
	case errors.Is(a.err, engine.ErrNoContainer):
		return w.roster.gone(a.id), nil
	case errors.Is(a.err, context.DeadlineExceeded):
		w.log.Warn("docker engine does not describe a container, asking again", "container", a.id)
		return a.question, nil
	case a.err != nil:
		return nothing, a.err
	case a.question == summary:
		w.roster.summarized(a.info)
	default:
		return w.roster.inspected(a.info), nil
	}
	return nothing, nil
}

// touch makes the list be looked at soon. A timer that runs is not put off.
func (w *dockerRun) touch() {
	if !w.dirty {
		w.dirty = true
		w.timer.Reset(settle)
	}
}

// refresh looks for the processes of containers that are about to start and for the
// devices of all containers, and reports the list if it differs from the last.
func (w *dockerRun) refresh() {
	w.dirty = false
	if !w.ready {
		return
	}
	w.settleNamespaces()
	w.findExpected()
	var list []Workload
	for _, c := range w.roster.present() {
		list = append(list, w.workload(c))
	}
	w.out.send(list)
}

// settleNamespaces resolves the namespaces that are not known yet. Without an
// engine to say so, the end of a container's namespace is the end of its process.
func (w *dockerRun) settleNamespaces() {
	for _, c := range w.roster.present() {
		if !ownsNetwork(c.Mode) || w.links.alive(c.ns) && c.by == c.Sandbox {
			continue
		}
		was := c.ns
		path, ns := w.namespaceOf(c)
		if c.by = c.Sandbox; ns == nil || ns != was {
			c.netns, c.ns = path, ns
		}
		if ns == nil && was != nil && w.away {
			c.Pid, c.announced = 0, time.Now()
		}
	}
}

// namespaceOf returns the network namespace of a container, with its file: the one that the engine
// made for it, by the engine's file where that is to be seen here. The process of a container with
// CAP_SYS_ADMIN, in a user namespace of its own too, can leave it for another.
func (w *dockerRun) namespaceOf(c *record) (path string, ns *namespace) {
	if c.Sandbox != "" && c.confirmed {
		seen := []string{c.Sandbox}
		if pid := w.engine.Process(); pid > 0 { // whose mounts may not be these
			seen = append(seen, filepath.Join(w.proc, strconv.Itoa(pid), "root", c.Sandbox))
		}
		for _, path := range seen {
			if ns, err := w.links.resolve(path); err == nil {
				return path, ns
			}
		}
	}
	path = netnsPath(w.proc, c.Pid)
	ns, _ = w.links.resolve(path)
	return path, ns
}

// findExpected looks for processes of expected containers behind veths that
// belong to no container yet.
func (w *dockerRun) findExpected() {
	expected := w.roster.expected(time.Now())
	if len(expected) == 0 {
		return
	}
	claimed := map[*namespace]bool{}
	for _, c := range w.roster.present() {
		if c.ns != nil {
			claimed[c.ns] = true
		}
	}
	nsids := w.links.unclaimed(claimed)
	if len(nsids) == 0 {
		return
	}
	for id, pid := range findProcesses(w.proc, w.links, expected, nsids) {
		w.roster.found(id, pid)
		c := w.roster.records[id]
		c.netns, c.ns = w.namespaceOf(c)
	}
}

// workload returns a container as a Workload.
func (w *dockerRun) workload(c *record) Workload {
	out := Workload{Key: workload.Key(workload.KindDocker, c.Name), ID: c.ID, Name: c.Name, Kind: workload.KindDocker, Labels: c.Labels, Oversize: c.Oversize, ImageLabels: c.Baked, Group: c.Project()}
	switch {
	case c.Mode == "host":
		out.Cgroups, out.Note = w.beside(c, false, func() (cgroups []string, note string) { return w.cgroup(c, "uses the host's network") })
		return out
	case !ownsNetwork(c.Mode):
		out.Note = w.roster.sharedNote(c)
		return out
	}
	out.Devices = w.links.devices(c.ns)
	for i := range out.Devices {
		out.Devices[i].PeerNetns = c.netns
	}
	if c.confirmed && len(out.Devices) < max(1, len(c.Networks)) {
		veths := len(out.Devices) > 0
		out.Cgroups, out.Note = w.beside(c, veths, func() (cgroups []string, note string) { return w.otherDevices(c, veths) })
	}
	if len(out.Cgroups) == 0 && len(out.Devices) > 0 {
		var reach string
		if out.Sockets, reach = w.sockets(c); out.Note == "" {
			out.Note = reach
		}
	}
	return out
}

// sockets returns the cgroup of a container with devices, and a note if it may make devices on
// those of the host. It looks once after each event.
func (w *dockerRun) sockets(c *record) (cgroups []string, reach string) {
	if !c.looked {
		c.sockets, _ = w.cgroup(c, "")
		c.reach = ""
		if c.confirmed && capable.HostAdmin(w.proc, c.Pid) { // before, it is the runtime's process
			c.reach = reaching
		}
		c.looked = true
	}
	return slices.Clone(c.sockets), c.reach
}

// beside returns the cgroup of a container that sends not by veths alone, and a note on what of it
// is not held. It looks once after each event, and when the last veth has gone.
func (w *dockerRun) beside(c *record, veths bool, look func() (cgroups []string, note string)) (cgroups []string, note string) {
	if !c.noted || c.veths != veths {
		c.cgroups, c.note = look()
		c.noted, c.veths = true, veths
	}
	return slices.Clone(c.cgroups), c.note
}

// otherDevices returns the cgroup of a container with a device such as a macvlan, or without any
// that is to be seen: its process may have hidden them in another namespace. The note says what is
// not held, or why there is no cgroup.
func (w *dockerRun) otherDevices(c *record, veths bool) (cgroups []string, note string) {
	kinds, err := w.kinds(c.netns)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // else its process has just ended
		w.log.Debug("the devices of a container cannot be listed", "workload", c.Name, "err", err)
	}
	network, why := noDevice, noteForKinds(c.Mode, kinds)
	switch device := within.Stacked(kinds); {
	case device != "":
		network, why = onHostDevice(device), ""
	case veths:
		return nil, why
	}
	cgroups, note = w.cgroup(c, network)
	switch {
	case why != "":
		note = why
		if c.Mode == "none" && capable.HostAdmin(w.proc, c.Pid) {
			note += "; " + reaching
		}
	case len(cgroups) == 0:
	case capable.NetAdmin(w.proc, c.Pid):
		note = unheld(network)
	case network == noDevice:
		note = noDevice + bySockets
	}
	return cgroups, note
}

// cgroup returns the folder of a container's cgroup of version 2. The note says why its
// packets cannot be told from the host's own, after what kind of network it has.
func (w *dockerRun) cgroup(c *record, network string) (cgroups []string, note string) {
	text, err := cgroup.Text(w.proc, c.Pid)
	if err != nil {
		return nil, "" // its process has just ended
	}
	h := w.cgroups()
	path := cgroup.OfContainer(cgroup.Of(text), c.ID)
	switch trouble := h.Trouble(); {
	case path != "" && h.Root != "":
		if note := cgroup.TooDeep(h.Root, filepath.Join(h.Root, path)); note != "" {
			return nil, network + ", and " + note
		}
		return []string{filepath.Join(h.Root, path)}, ""
	case trouble != "":
		return nil, network + ": " + trouble
	}
	return nil, network + ", and its processes are in no cgroup of its own that is to be seen from here; " +
		"run the agent on the host itself (in a container: with --cgroupns host --pid host)"
}
