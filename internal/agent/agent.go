// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"weir/internal/agent/decide"
	"weir/internal/api"
	"weir/internal/audit"
	"weir/internal/config"
	"weir/internal/dataplane"
	"weir/internal/discover"
	"weir/internal/plan"
	"weir/internal/policy"
	"weir/internal/refusal"
	"weir/internal/sdn/switchport"
)

// Options are what an agent is made of.
type Options struct {
	Config config.Config
	// Open gets the backend of a link. It is called again, with pauses, while it
	// fails with dataplane.ErrNoDevice or another error.
	Open func(config.Link) (dataplane.Backend, error)
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
	PortsStatus func() (state, note string)
	// Attach makes workloads by name; nil if there is no source that could.
	Attach Attacher
	// Load reads the configuration again; nil if there is no file.
	Load func() (config.Config, error)
	// DeviceExists tells whether a device that was there when the last agent ended
	// still is; nil = all are.
	DeviceExists func(name string, ifindex int) bool
	// Devices are the names of the network devices that exist; with nil the names of links
	// are not checked against them.
	Devices func() ([]string, error)
	// LimitOffload keeps what a workload sends through dev in packets that suit a
	// link of the given capacity; with nil packets stay as large as they are.
	LimitOffload func(dev discover.Device, capacity policy.Rate) error
	// RestoreOffload undoes LimitOffload; with nil a limit stays.
	RestoreOffload func(dev discover.Device) error
	// Goodput makes the meter that reservations are held by; nil = there is none, and
	// they are held by what headers alone demand.
	Goodput func() (Meter, error)
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
	opts    Options
	log     *slog.Logger
	store   *store
	calls   chan func()
	running sync.WaitGroup // sources and watchers
	ended   chan struct{}  // closed when Run has returned

	// The rest belongs to the goroutine in Run.
	started     time.Time
	configError string // what is wrong with the file on the disk
	reloads     api.Reloads
	decided     decide.Decision
	links       []*link // in the configuration's order
	sources     []*source
	pending     map[string]*pending // by key
	away        map[string]absence  // by key
	readers     map[chan api.Sample]bool
	offloads    map[int]offload // limits that are set, by the device's index
	goodput     regulator
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
	a := &Agent{
		opts:    opts,
		log:     opts.Log,
		store:   newStore(opts.StateDir),
		calls:   make(chan func()),
		ended:   make(chan struct{}),
		pending: map[string]*pending{},
		away:    map[string]absence{},
		readers: map[chan api.Sample]bool{},
	}
	a.goodput.open = opts.Goodput
	state, err := a.store.load(a.log)
	if err != nil {
		return nil, err
	}
	if err := a.remember(state); err != nil {
		return nil, err
	}
	for _, l := range a.decided.World.Links() {
		a.links = append(a.links, a.newLink(l))
	}
	return a, nil
}

// remember takes up what was kept.
func (a *Agent) remember(state kept) error {
	w := decide.World{Config: a.opts.Config, Set: map[string]policy.Change{}, Groups: map[string]policy.Change{}, Number: state.Numbers, Grants: state.Grants, Tuned: map[string]decide.Tuned{}, Accepted: map[string][]string{}}
	maps.Copy(w.Tuned, state.Tuned)
	maps.Copy(w.Accepted, state.Accepted)
	maps.Copy(w.Set, state.Set)
	maps.Copy(w.Groups, state.Groups)
	for _, src := range a.opts.Sources {
		s := &source{Source: src}
		for _, k := range state.Seen[src.Name()] {
			s.seen = append(s.seen, k.workload(a.opts.DeviceExists))
		}
		a.sources = append(a.sources, s)
	}
	for _, at := range a.opts.Config.Attach {
		if err := a.attacher().Attach(at, true); err != nil {
			return fmt.Errorf("attach %s: %w", at, err)
		}
	}
	for _, at := range state.Attached {
		if err := a.attacher().Attach(at, true); err != nil {
			a.log.Warn("workload cannot be attached again", "workload", at.String(), "err", err)
			continue
		}
		w.Attached = append(w.Attached, at)
	}
	w.Found = a.merged()
	a.decided = decide.Decide(w)
	return nil
}

func (a *Agent) newLink(c config.Link) *link {
	return &link{config: c, log: a.log.With("link", c.Name()), dirty: true, pacer: a.pacer(c.Direction)}
}

// attacher refuses where there is none.
func (a *Agent) attacher() Attacher {
	if a.opts.Attach == nil {
		return noAttacher{}
	}
	return a.opts.Attach
}

type noAttacher struct{}

func (noAttacher) Attach(config.Attachment, bool) error {
	return errors.New("this agent has no source for namespaces, devices and cgroups")
}
func (noAttacher) Look(config.Attachment) ([]discover.Device, []string) { return nil, nil }
func (noAttacher) Detach(config.Attachment) error                       { return nil }

// Run steers until parent ends, and then leaves the kernel scheduling. It fails at
// once if no link can be steered for a reason that waiting does not cure.
func (a *Agent) Run(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer a.shutdown(cancel)
	if len(a.opts.Config.Links) == 0 && a.opts.Ports == nil {
		return ErrNoLink
	}
	a.started = time.Now()
	a.reloads.LastOK = a.started.UTC()
	a.warnOfConfig(a.decided.World.Config)
	if err := a.begin(ctx); err != nil {
		return err
	}
	if a.opts.Beneath != nil {
		a.running.Go(func() { cancel(a.opts.Beneath(ctx)) })
	}
	for _, s := range a.sources {
		a.running.Go(func() { a.watch(ctx, s) })
	}
	a.running.Go(func() { a.watchConfig(ctx) })
	a.running.Go(func() { a.watchPorts(ctx) })
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-ctx.Done():
			if parent.Err() == nil {
				return context.Cause(ctx)
			}
			return nil
		case call := <-a.calls:
			call()
		case <-second.C:
			a.tick(ctx)
		}
	}
}

// ErrNoLink is why an agent without anything to steer does not run.
var ErrNoLink = errors.New("no link is configured; name one by --link eth0 --egress 100mbit, or under links: in " + config.DefaultPath)

// begin brings the links up for the first time.
func (a *Agent) begin(ctx context.Context) error {
	a.commit(ctx, decide.Decide(a.decided.World), decide.Reasons{General: "agent started"})
	a.tend(ctx, time.Now())
	hope := func(l *link) bool { return l.err == nil || errors.Is(l.err, dataplane.ErrNoDevice) }
	if len(a.links) > 0 && !slices.ContainsFunc(a.links, hope) {
		return a.links[0].err
	}
	a.complain()
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
	if a.goodput.meter != nil {
		if err := a.goodput.meter.Close(); err != nil {
			a.log.Warn("closing the goodput meter", "err", err)
		}
	}
	for reader := range a.readers {
		close(reader)
	}
	a.readers = nil
}

// errEnded is the answer of an agent that runs no more.
var errEnded = errors.New("the agent is stopping; try again when it has been started")

// busyAfter is how long a request waits for the agent's goroutine. It is less than the
// server has to write an answer (rest.RequestTimeout), after which the client would see its
// connection end without a word.
const busyAfter = 10 * time.Second

// do has f run in the agent's goroutine and waits for it, for a request. Where that
// goroutine is busy for too long, f does not run.
func (a *Agent) do(ctx context.Context, f func()) error {
	return a.await(ctx, f, time.After(busyAfter))
}

// tell is do for what the agent finds out by itself, which has time. The error is the
// agent's end or ctx's.
func (a *Agent) tell(ctx context.Context, f func()) error {
	return a.await(ctx, f, nil)
}

func (a *Agent) await(ctx context.Context, f func(), tooLong <-chan time.Time) error {
	done := make(chan struct{})
	select {
	case a.calls <- func() { defer close(done); f() }:
		<-done
		return nil
	case <-a.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	case <-tooLong:
		return &refusal.Error{
			Kind:   refusal.Busy,
			Msg:    fmt.Sprintf("the agent is busy and has not come to this within %v", busyAfter),
			Remedy: "try again; its log says what it does: journalctl -u weir",
		}
	}
}

// tick is what happens once a second.
func (a *Agent) tick(ctx context.Context) {
	now := time.Now()
	a.giveUp(ctx, now)
	a.tend(ctx, now)
	a.complain()
	for _, l := range a.links {
		l.sample(now)
	}
	a.regulate(ctx, now)
	a.publish(now)
}

// tend brings up the links that are not, and looks after the others.
func (a *Agent) tend(ctx context.Context, now time.Time) {
	had := map[*link]bool{}
	for _, l := range a.links {
		had[l] = l.backend != nil
		l.revive(ctx, now, a.opts.Open)
	}
	a.learn(ctx) // before the plan for another backend is set
	for _, l := range a.links {
		why := "agent took the link over"
		if had[l] {
			why = "link was not as wanted"
		}
		a.logChanges(l, l.tend(ctx, now), decide.Reasons{General: why})
		if !had[l] && l.backend != nil && l.err == nil {
			a.recordLink("take-over", l, "")
		}
	}
	a.learn(ctx) // the backend of an IFB is known when it was set
}

// complain writes down what is wrong with links, once.
func (a *Agent) complain() {
	for _, l := range a.links {
		l.complain()
	}
}

// logChanges writes down each change with what and why.
func (a *Agent) logChanges(l *link, changes []plan.Change, why decide.Reasons) []decide.PlannedChange {
	list := decide.Explained(changes, l.config.Name(), a.decided, why)
	for _, c := range list {
		if c.Workload == "" {
			l.log.Info(c.Text, "why", c.Why)
		} else {
			l.log.Info(c.Text, "workload", c.Workload, "why", c.Why)
		}
	}
	return list
}

// logStates writes down what the plans do not show: who is refused something,
// and who no longer is.
func (a *Agent) logStates(before, after decide.Decision, why decide.Reasons) {
	notes, warned := map[string]string{}, map[string][]string{}
	for _, v := range slices.Concat(before.Verdicts, before.Groups) {
		notes[v.Key], warned[v.Key] = v.Note, v.OwnWarnings()
	}
	for _, v := range slices.Concat(after.Verdicts, after.Groups) {
		switch was := notes[v.Key]; {
		case v.Note == was:
		case v.Note != "":
			a.log.Warn("workload does not have all that was asked for it", "workload", v.Name, "state", v.State, "note", v.Note, "why", why.Of(v.Key))
		default:
			a.log.Info("workload has all that was asked for it", "workload", v.Name, "state", v.State, "why", why.Of(v.Key))
		}
		for _, warning := range v.OwnWarnings() {
			if !slices.Contains(warned[v.Key], warning) {
				a.log.Warn("rules overlap", "workload", v.Name, "note", warning, "why", why.Of(v.Key))
			}
		}
	}
}

// warnOfConfig writes down which rules overlap in a configuration that was read.
func (a *Agent) warnOfConfig(c config.Config) {
	for _, warning := range c.Warnings {
		a.log.Warn("rules overlap", "note", warning)
	}
}

// linkOf finds a link by its name; that of a device's egress is the device's.
func (a *Agent) linkOf(name string) *link {
	i := slices.IndexFunc(a.links, func(l *link) bool { return l.config.Name() == name })
	if i < 0 {
		return nil
	}
	return a.links[i]
}
