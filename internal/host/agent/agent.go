// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"weir/internal/api"
	"weir/internal/base/audit"
	"weir/internal/config"
	"weir/internal/core/paths"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/texts"
	"weir/internal/core/workload"
	"weir/internal/host/agent/away"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/memory"
	"weir/internal/host/agent/notify"
	"weir/internal/host/agent/offload"
	"weir/internal/host/agent/owners"
	"weir/internal/host/agent/past"
	"weir/internal/host/agent/readers"
	"weir/internal/host/agent/record"
	"weir/internal/host/agent/reload"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/pace"
	"weir/internal/host/discover"
	"weir/internal/host/sdn/switchport"
)

// Options are the parts and settings of an agent.
type Options struct {
	Config config.Config
	Devices
	// Sources find workloads.
	Sources []discover.Source
	// Beneath runs beside the sources, for what they stand on; the agent ends if it
	// does. nil = nothing.
	Beneath func(context.Context) error
	// Ports follows the ports of a switch that are links too, until ctx ends; nil =
	// there are none.
	Ports func(ctx context.Context, report func(switchport.Report)) error
	// PortsStatus says whether Ports is connected, as api.Source has it; nil = Ports
	// does not report it.
	PortsStatus func() (state workload.SourceState, note string)
	// Paths follows by which devices the traffic of workloads goes; nil = that is not known.
	Paths past.Watcher
	// Attach makes workloads by name; nil if there is no source that could.
	Attach Attacher
	// Load reads the configuration again; nil if there is no file.
	Load func() (config.Config, error)
	// Wrong is the mistake in the file for which Config is the one that was in force before;
	// nil = there is none.
	Wrong error
	// Accepted is called when what Load returned, or Config, is in force; nil = nothing is
	// done.
	Accepted func() error
	// DeviceExists tells whether a device that was there when the last agent ended
	// still is; nil = all are.
	DeviceExists func(name string, ifindex int) bool
	// Offload limits the packets that workloads with a reservation build; its zero value leaves
	// them as large as they are.
	Offload offload.Limits
	// OpenSockets returns the classes of which sockets are open though no process of theirs is
	// there; nil = that is not known, and workloads end with their processes.
	OpenSockets func() (map[plan.ClassID]bool, error)
	// Networks are those of a device, for what its zones mean by connected; nil = zones are not
	// shown.
	Networks func(device string) ([]netip.Prefix, error)
	// LockLimit returns a warning if a backend's root qdisc does not carry the link's
	// capacity on this host, "" if it does; nil = that is not known. It is asked once the
	// qdisc is there.
	LockLimit func(l config.Link, backend string) string
	// Goodput makes the meter that reservations are held by; nil = there is none, and
	// they are held by what headers alone demand.
	Goodput func() (Meter, error)
	// Unwritable returns the agent's folders in which nothing can be written now; nil = that is
	// not known. It is asked every second.
	Unwritable func() []api.Storage
	// Late returns what beside the file's settings is in force from the next start on; nil =
	// nothing.
	Late func() []string
	// Down returns why a link's device sends nothing though it is there, "" if it does or that
	// is not known; nil = it is never known. It is asked every second.
	Down func(device string) string
	// Wall returns what the host's clock shows at a moment, in its time zone: it may be set
	// back while time goes on. nil = what it showed then.
	Wall func(time.Time) time.Time
	// StateDir is where state.json is kept; "" = Config.StateDir.
	StateDir string
	Version  string
	// Audit records what changes policies; with nil there is no record.
	Audit *audit.Log
	Log   *slog.Logger
}

// Agent steers the links of one node. Its methods may be called from any
// goroutine; they answer while Run runs.
type Agent struct {
	loop
	allocator
	accounts
	observers
	teller  *notify.Teller
	opts    Options
	log     *slog.Logger
	record  record.Recorder
	store   *memory.StateFile
	running sync.WaitGroup // sources and watchers

	// The rest belongs to the goroutine in Run.
	started   time.Time
	devices   devices
	file      reload.FileStatus
	decided   decide.Decision
	links     links
	finder    *finder
	readers   readers.Readers
	offloads  offload.Limits
	regulator regulator
}

var _ api.Agent = (*Agent)(nil)

// New makes an agent that believes what its predecessor kept. It changes nothing
// before Run.
func New(opts Options) (*Agent, error) {
	if opts.StateDir == "" {
		opts.StateDir = opts.Config.StateDir
	}
	if opts.DeviceExists == nil {
		opts.DeviceExists = func(string, int) bool { return true }
	}
	if opts.Down == nil {
		opts.Down = func(string) string { return "" }
	}
	if opts.Wall == nil {
		opts.Wall = func(now time.Time) time.Time { return now.Round(0) }
	}
	if opts.Unwritable == nil {
		opts.Unwritable = func() []api.Storage { return nil }
	}
	if opts.Late == nil {
		opts.Late = func() []string { return nil }
	}
	a := &Agent{
		loop:      newLoop(),
		opts:      opts,
		log:       opts.Log,
		record:    record.Recorder{Log: opts.Log, Audit: opts.Audit},
		store:     memory.NewFile(opts.StateDir),
		readers:   readers.Readers{},
		devices:   newDevices(opts.Devices, opts.Log),
		offloads:  opts.Offload,
		regulator: regulator{log: opts.Log, open: opts.Goodput},
	}
	a.allocator = allocator{a}
	a.teller = notify.NewTeller(opts.StateDir, a.log)
	state, err := a.store.Load(a.log)
	if err != nil {
		return nil, err
	}
	if a.accounts, err = openAccounts(a, filepath.Join(opts.StateDir, "usage")); err != nil {
		return nil, err
	}
	a.finder = newFinder(away.New(opts.OpenSockets, a.log), a.log, opts.Attach, opts.Sources, state.Seen, opts.DeviceExists)
	w := state.World(opts.Config)
	if w.Attached, err = a.finder.resume(opts.Config.Attach, state.Attached); err != nil {
		return nil, err
	}
	w.Found, w.Now, w.Texts = a.finder.found(), opts.Wall(time.Now()), &texts.Kept{}
	a.decided = decide.Decide(w)
	if w.Quotas = a.standings(w.Now, a.decided); len(w.Quotas) > 0 {
		a.decided = decide.Decide(w)
	}
	for _, l := range w.Links() {
		a.links = append(a.links, a.newLink(l))
	}
	return a, nil
}

// newLink returns a link that is not steered yet. Its pacer looks its settings up in the world.
func (a *Agent) newLink(c config.Link) *link {
	settings := func(workload, _ string) pace.Options { return settingsOf(a.decided.TunedOf(workload)) }
	return &link{config: c, log: a.log.With("link", c.Name()), dirty: true, lockLimit: a.opts.LockLimit, count: a.accounts.count, down: a.opts.Down,
		pacer: pace.New(cmp.Or(c.Direction, policy.Egress), settings)}
}

// Run steers until parent ends, and then leaves the kernel scheduling. It fails at
// once if no link can be steered for a reason that waiting does not cure.
func (a *Agent) Run(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer a.shutdown(cancel)
	if c := a.opts.Config; len(c.Links) == 0 && !c.NoLink && a.opts.Ports == nil {
		return ErrNoLink
	}
	a.started = time.Now()
	a.file.LastOK = a.started.UTC()
	a.teller.Follow(a.opts.Config.Tell)
	a.record.Overlaps(a.decided.World.Config)
	if err := a.begin(ctx); err != nil {
		return err
	}
	if a.opts.Beneath != nil {
		a.running.Go(func() { cancel(a.opts.Beneath(ctx)) })
	}
	in := func(f func()) { _ = a.tell(ctx, f) } // fails only when the agent ends
	for _, s := range a.finder.sources {
		a.running.Go(func() { a.finder.watch(ctx, s, in, func(list []discover.Workload) { a.report(ctx, s, list) }) })
	}
	if path := a.opts.Config.Path; path != "" && a.opts.Load != nil {
		a.running.Go(func() { reload.Watch(ctx, a.log, path, func(why string) { _ = a.Reload(ctx, why) }) })
	}
	if a.opts.Ports != nil {
		take := func(r switchport.Report) { in(func() { a.takePorts(ctx, r) }) }
		a.running.Go(func() { watchPorts(ctx, a.log, a.opts.Ports, take) })
	}
	take := func(w decide.World) {
		a.commit(ctx, decide.Decide(w), decide.Reasons{General: "devices of the host say so"})
	}
	found := func(r paths.Result) { in(func() { take(past.In(a.decided.World, r, a.log)) }) }
	a.running.Go(func() { past.Follow(ctx, a.log, a.opts.Paths, found) })
	second := time.NewTicker(time.Second)
	defer second.Stop()
	near := time.NewTimer(time.Second) // the end of a quota may be
	defer near.Stop()
	for {
		select {
		case <-ctx.Done():
			if parent.Err() == nil {
				return context.Cause(ctx)
			}
			return nil
		case call := <-a.calls:
			call()
		case <-a.devices.Changed:
			if a.links.follow(a.devices.Index) {
				a.reconcile(ctx, time.Now())
				a.links.complain()
				a.devices.tidy(ctx, a.decided.World.Links())
			}
		case <-second.C:
			a.tick(ctx)
			near.Reset(a.limit(ctx, time.Now()))
		case <-near.C:
			a.links.account()
			near.Reset(a.limit(ctx, time.Now()))
		}
	}
}

// ErrNoLink is why an agent without anything to steer does not run, unless the file says links: [].
var ErrNoLink = errors.New("no link is configured; name one by --link eth0 --egress 100mbit, or under links: in " + config.DefaultPath)

// begin brings the links up for the first time.
func (a *Agent) begin(ctx context.Context) error {
	if a.opts.Ports == nil { // else takePorts does, when it knows them
		a.devices.tidy(ctx, a.decided.World.Links())
	}
	a.commit(ctx, decide.Decide(a.decided.World), decide.Reasons{General: "agent started"})
	a.reconcile(ctx, time.Now())
	if err := a.links.hopeless(); err != nil {
		return err
	}
	a.links.complain()
	if a.opts.Wrong != nil {
		a.file.Failed(a.opts.Wrong)
	} else {
		reload.Accept(a.opts.Accepted, a.log)
	}
	return nil
}

// shutdown lets go of everything but the kernel's state.
func (a *Agent) shutdown(cancel context.CancelCauseFunc) {
	cancel(nil)
	close(a.ended)
	a.running.Wait()
	for _, l := range a.links {
		l.close()
	}
	a.ledger.Write(time.Now())
	a.teller.Close()
	a.regulator.close()
	a.readers.Close()
}

// report takes in what a source sees.
func (a *Agent) report(ctx context.Context, s *source, list []discover.Workload) {
	next, why, moved := a.finder.report(s, list, a.decided.World, time.Now())
	a.rename(owners.Renamed(next.Found, moved))
	a.commit(ctx, decide.Decide(next), why)
}

// tick does what has to be done once a second.
func (a *Agent) tick(ctx context.Context) {
	now := time.Now()
	if gone, why := a.finder.away.GiveUp(now, a.decided.World.Number); len(gone) > 0 {
		next := a.decided.World.Clone()
		next.ForgetPods(gone)
		next.Found = a.finder.found()
		a.commit(ctx, decide.Decide(next), decide.Reasons{General: "a workload did not come back", ByKey: why})
	}
	wall := a.opts.Wall(now)
	if a.decided.Due(wall) {
		next := a.decided.World.Clone()
		next.Now = wall
		a.commit(ctx, decide.Decide(next), decide.Reasons{General: "the time has come, see when"})
	}
	a.decided.World.Now = wall
	a.reconcile(ctx, now)
	a.links.complain()
	for _, l := range a.links {
		l.sample(now)
	}
	a.regulator.step(ctx, now, a.links)
	m := moment{a.decided, a.links}
	seen, events := m.look(a, now)
	a.readers.Publish(func() api.Sample { return m.sample(seen, false) }, events)
}

// reconcile brings up the links that are not, and looks after the others.
func (a *Agent) reconcile(ctx context.Context, now time.Time) {
	had := map[*link]bool{}
	for _, l := range a.links {
		had[l] = l.backend != nil
		l.revive(ctx, now, func(l *link) (dataplane.Backend, error) { return a.devices.open(l, a.links) })
	}
	a.learn(ctx) // before the plan for another backend is set
	a.limit(ctx, now)
	for _, l := range a.links {
		why := "agent took the link over"
		if had[l] {
			why = "link was not as wanted"
		}
		a.record.Changes(l.log, decide.Explained(l.reconcile(ctx, now), l.config.Name(), a.decided, decide.Reasons{General: why}))
		if !had[l] && l.backend != nil && l.err == nil {
			a.record.Link("take-over", l.config.Name(), "")
		}
	}
	a.learn(ctx) // the backend of an IFB is known when it was set
}
