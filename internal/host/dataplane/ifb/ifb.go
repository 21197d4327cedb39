// SPDX-License-Identifier: Apache-2.0

// Package ifb steers what has a qdisc of its own beside the link's: the ingress of a link (what
// it receives for workloads), and the zones of a link, in both directions.
//
// A qdisc schedules what leaves a device, so what came by the link is made to
// leave one: at the host's end of each workload's veth or tap it gets
// the workload's class and goes to a pair of veths, at whose first end one of the other two
// backends has its qdisc; when its turn has come a program at the second end sends it on by the
// veth that it was taken from (package mark, bpf/marking/classify.bpf.c). On kernels without tcx an
// IFB device is in the place of the pair.
//
//	eth0 ──► bridge, NAT ──► veth of web ──► web
//	                           │ ▲
//	                           ▼ │
//	weir-in-eth0 [class 1: web, class 2: batch, ...] ──► weir-ib-eth0
//
// So a Backend here is another one on weir-in-eth0, and the device itself: made by
// Set, found again by its name, removed by Cleanup. To the agent its link is eth0.
//
// What leaves by a link for a zone that has a capacity of its own (docs/zones.md) is carried to
// an IFB by a filter at the link itself, has its turn there, and comes back to the link, whose
// qdisc has one class for each such zone:
//
//	veth of web ──► eth0 [filter] ─────────────────────► eth0 [class of wan]
//	                       │                               ▲
//	                       ▼                               │
//	               weir-z-eth0-wan [class 1: web, ...] ────┘
//
// What it does not do: steer what the host itself receives, or cgroups, whose
// packets pass no port; stop anything before it has crossed the link. A sender
// that does not slow down when its packets wait or are lost fills the line all the
// same (docs/ingress.md).
package ifb

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/framing"
	"weir/internal/core/policy/zone"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark"
)

// Open gets a backend for a device.
type Open func(device string, opts dataplane.Options) (dataplane.Backend, error)

// End is what a Backend steers.
type End struct {
	device.IFB
	Local bool       // ingress: packets of this host and its other workloads as well
	Area  *zone.Area // the addresses at the other side; nil = all
}

// Backend steers one End. It implements dataplane.Backend. Its
// methods may be called from several goroutines; the kernel looks for devices in
// the network namespace of the thread that called New.
type Backend struct {
	end  End
	opts dataplane.Options
	open Open
	log  *slog.Logger
	conn *device.Conn
	name string // of the backend on the IFB

	mu       sync.Mutex
	inner    dataplane.Backend // on the IFB; nil while there is none
	inward   dataplane.Inward  // that inner was opened with
	next     chan struct{}     // closed when inner is another one
	networks []netip.Prefix    // of the link, as area has them
	area     *dataplane.CompiledArea
	zones    mark.Zones // of a zone's egress
	zone     mark.Zone
}

// New prepares a backend; it changes nothing yet. What is on the IFB is opened by open.
func New(end End, opts dataplane.Options, open Open, log *slog.Logger) (*Backend, error) {
	conn, err := device.Open()
	if err != nil {
		return nil, err
	}
	b := &Backend{end: end, opts: opts, open: open, log: log.With("link", end.String()), conn: conn, next: make(chan struct{})}
	if b.zoneEgress() {
		b.opts.Zone = true
		if b.zones, err = mark.NewZones(b.opts, b.log); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	if err := b.find(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// find opens the backend that an earlier process left, and finds a kernel out that cannot.
func (b *Backend) find() error {
	if link, err := b.conn.Lookup(b.end.Link); err == nil { // else Set finds it
		b.opts.Wire = wire(link, b.end.Ingress)
	}
	dev, err := b.conn.Lookup(b.end.Name())
	switch {
	case errors.Is(err, dataplane.ErrNoDevice):
		probe, err := b.open("lo", b.opts)
		if err != nil {
			return err
		}
		b.name = probe.Name()
		return probe.Close()
	case err != nil:
		return err
	}
	return b.use(dev, nil)
}

// zoneEgress reports whether this is what leaves by the link for a zone.
func (b *Backend) zoneEgress() bool { return !b.end.Ingress }

// use opens the backend on the IFB, unless it is open.
func (b *Backend) use(dev device.Device, sources []int) error {
	back, err := b.conn.BackOf(b.end.IFB)
	if err != nil {
		return err
	}
	inward := dataplane.Inward{IFB: dev.Index, Back: back, Sources: sources, Local: b.end.Local, Area: b.area}
	if b.inner != nil && b.inward.IFB == inward.IFB && b.inward.Back == back && b.inward.Area == b.area && slices.Equal(b.inward.Sources, sources) {
		return nil
	}
	opts := b.opts
	if b.zoneEgress() {
		opts.Back = back
	} else {
		opts.Inward = &inward
	}
	fresh, err := b.open(dev.Name, opts)
	if err != nil {
		return err
	}
	if b.inner != nil {
		err = b.inner.Close()
	}
	b.inner, b.inward, b.name = fresh, inward, fresh.Name()
	close(b.next)
	b.next = make(chan struct{})
	return err
}

// wire returns what a link takes of each frame beyond what the kernel counts where its turn comes,
// in bytes: beyond a frame at a workload's port for what it receives, and as it is at the link for
// what leaves for a zone.
func wire(link device.Device, ingress bool) int {
	if ingress && !link.Ethernet {
		return link.Tag - framing.Ethernet
	}
	return link.Tag
}

// survey makes the area's table, unless the link's networks are those that it was made with.
func (b *Backend) survey(link device.Device) error {
	if b.end.Area == nil {
		return nil
	}
	networks, err := b.conn.Networks(link)
	if err != nil || b.area != nil && slices.Equal(networks, b.networks) {
		return err
	}
	area, err := dataplane.NewArea(*b.end.Area, networks)
	if err == nil {
		b.log.Debug("the zone's addresses are found", "networks", networks)
		b.area, b.networks = area, networks
	}
	return err
}

// Name is that of the backend on the IFB.
func (b *Backend) Name() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.name
}

// Gaps are those of the backend on the IFB, and what no receiver can do.
func (b *Backend) Gaps() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.zoneEgress() {
		if b.inner == nil {
			return nil
		}
		return b.inner.Gaps()
	}
	gaps := []string{
		"Ingress is steered after it has crossed the link: a sender that does not slow down when its packets wait or are lost (a UDP flood) fills the line all the same.",
		"What the host itself and its cgroups receive passes no port of a workload: it is not steered, and what it takes is taken from the ingress unseen.",
	}
	if b.inner == nil {
		return gaps
	}
	return append(b.inner.Gaps(), gaps...)
}

// Abilities are those of the backend on the IFB. They are known after the first Set;
// before that nothing is known to be lacking.
func (b *Backend) Abilities() dataplane.Abilities {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner == nil {
		return dataplane.Abilities{}
	}
	return b.inner.Abilities()
}

// Set makes the kernel match want.
func (b *Backend) Set(ctx context.Context, want plan.State) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	link, err := b.conn.Lookup(b.end.Link)
	if err != nil {
		return err
	}
	sources, err := b.conn.Sources(link)
	if err != nil {
		return err
	}
	if err := b.survey(link); err != nil {
		return err
	}
	dev, err := b.ensure(link)
	if err != nil {
		return err
	}
	if now := wire(link, b.end.Ingress); now != b.opts.Wire && b.inner != nil {
		b.opts.Wire = now // of a link that is of another kind by now
		err, b.inner = b.inner.Close(), nil
	}
	if err = errors.Join(err, b.use(dev, sources)); err != nil {
		return err
	}
	if err := b.inner.Set(ctx, b.inside(want)); err != nil || !b.zoneEgress() {
		return err
	}
	b.zone = mark.Zone{Link: link, IFB: dev.Index, Back: b.inward.Back, Class: want.Link.Class, Area: b.area}
	return b.zones.Attach(b.zone, want)
}

// inside returns a state as the backend on the IFB is told it.
func (b *Backend) inside(want plan.State) plan.State {
	want.Link.Device, want.Link.Direction, want.Link.Zone = b.end.Name(), "", ""
	return want
}

// Pace makes the kernel match the intervals of want's classes and queues.
func (b *Backend) Pace(ctx context.Context, want plan.State) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner == nil {
		return errors.New("pace: the link is not set yet")
	}
	return b.inner.Pace(ctx, b.inside(want))
}

// Missing names the parts that another program removed or changed; the IFB itself, too.
func (b *Backend) Missing() ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner == nil {
		return nil, nil
	}
	missing, err := b.inner.Missing()
	_, lost := b.conn.Lookup(b.end.Link)
	switch {
	case errors.Is(err, dataplane.ErrNoDevice) && lost != nil:
		return nil, lost // with its link
	case errors.Is(err, dataplane.ErrNoDevice):
		return []string{b.end.Name() + " is gone"}, nil
	case err != nil || lost != nil || b.end.Area == nil || b.area == nil || !b.zoneEgress():
		return missing, err
	}
	gone, err := b.zones.Missing(b.zone)
	return append(missing, gone...), err
}

// Moved reports whether the link's networks are other ones than the area was made with.
func (b *Backend) Moved() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	link, lost := b.conn.Lookup(b.end.Link)
	if lost != nil || b.inner == nil || b.end.Area == nil || b.area == nil {
		return false
	}
	networks, err := b.conn.Networks(link)
	return err != nil || !slices.Equal(networks, b.networks) // Set says why they cannot be read
}

// State is what the kernel holds now, as far as Weir made it.
func (b *Backend) State() (plan.State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner == nil {
		return plan.State{}, nil
	}
	state, err := b.inner.State()
	if errors.Is(err, dataplane.ErrNoDevice) { // the IFB is gone; the link may be there
		return plan.State{}, nil
	}
	if state.Link != (plan.Link{}) {
		state.Link.Device, state.Link.Zone = b.end.Link, b.end.Zone
		if b.end.Ingress {
			state.Link.Direction = policy.Ingress
		}
	}
	return state, err
}

// Counters reads every class.
func (b *Backend) Counters() (dataplane.LinkCounters, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inner == nil {
		return dataplane.LinkCounters{}, nil
	}
	return b.inner.Counters()
}

// Run does what the backend on the IFB has to do over time.
func (b *Backend) Run(ctx context.Context) error {
	for {
		b.mu.Lock()
		inner, next := b.inner, b.next
		b.mu.Unlock()
		here, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		if inner != nil {
			go func() { ended <- inner.Run(here) }()
		}
		select {
		case <-next: // another one
			cancel()
			if inner != nil {
				<-ended
			}
		case err := <-ended:
			cancel()
			return err
		case <-ctx.Done():
			cancel()
			if inner != nil {
				return <-ended
			}
			return ctx.Err()
		}
	}
}

// Close lets go of handles; the kernel goes on scheduling.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.inner != nil {
		err = b.inner.Close()
	}
	if b.zoneEgress() {
		err = errors.Join(err, b.zones.Close())
	}
	return errors.Join(err, b.conn.Close())
}

var (
	_ dataplane.Backend  = (*Backend)(nil)
	_ dataplane.Follower = (*Backend)(nil)
)
