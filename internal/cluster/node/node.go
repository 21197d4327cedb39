// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"
	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/base/audit"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/kafka"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/node/gate"
	"weir/internal/cluster/node/images"
	"weir/internal/cluster/node/incoming"
	"weir/internal/cluster/node/membership"
	"weir/internal/cluster/node/outgoing"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// Options configure a node.
type Options struct {
	Manager   string // host:port
	Token     string // for the first time
	Name      string // in the cluster; "" = as it joined
	Listen    string // host:port for other nodes' migrations
	Advertise string // host:port at which others reach Listen; "" = by the address that the manager is reached from
	// AcceptFrom are the nodes from which containers are taken; nil = all members.
	AcceptFrom []string
	// AcceptPolicy are the fields of a policy that a container from elsewhere may bring
	// with it, each for ingress as well; nil = all.
	AcceptPolicy []string
	Registry     string // host:port on the loopback at which its engine finds the manager's image registry; "" = nowhere
	Dir          string // of the certificate and of moves under way
	// Profile makes the next profile; nil = there are none.
	Profile func(ctx context.Context) (wire.Profile, error)
	// Engine is this machine's engine; nil = no migrations.
	Engine *migrate.Local
	// Agent puts policies into force; with nil the node applies none.
	Agent api.Agent
	// Moves is the cgroup of migrations' sockets; nil = none, their packets are the host's.
	Moves   Moves
	Version string
	Audit   *audit.Log // of what other nodes and the manager have this one do; nil = none
	Log     *slog.Logger
	// Kafka says how this node connects to the brokers, if they are the bus.
	Kafka kafka.Security

	Heartbeat time.Duration // between two; 0 = 5 s
	Interval  time.Duration // between two profiles; 0 = 5 s
	// MembersInterval is between two questions for the list of members; 0 = 15 s.
	MembersInterval time.Duration
	// Clock is the clock for certificates and the list of members; nil = the machine's.
	Clock clockwork.Clock

	standing *standing     // of the Member, if there is one
	stall    time.Duration // for which a part may stand still; 0 = as package incoming has it
}

const (
	defaultInterval = 5 * time.Second
	keepProfiles    = 60 // while the bus is away: five minutes
	keepReports     = 1000
	infoInterval    = time.Minute
	// factsInterval is how long the node believes what the engine says of itself; where
	// the engine has said that something is missing, troubleInterval. Each look may
	// start a process.
	factsInterval   = 5 * time.Minute
	troubleInterval = time.Minute
)

// Node is this machine as a member of a cluster.
type Node struct {
	opts Options
	log  *slog.Logger

	members  *membership.Membership
	images   *images.Registry // for its engine
	reports  *outbox
	profiles *outbox
	moves    *outgoing.Moves
	sequence *sequence // of the manager's orders
	incoming *incoming.Server
	calls    *gate.Calls // of other nodes
	listener net.Listener
	started  time.Time
	beats    atomic.Uint64

	mu       sync.Mutex
	facts    migrate.Facts
	asked    map[string]time.Time
	draining bool
}

// membership returns the options of the membership that a node is made of.
func (o Options) membership(log *slog.Logger) membership.Options {
	return membership.Options{Manager: o.Manager, Token: o.Token, Name: o.Name, Dir: o.Dir, Every: o.MembersInterval, Clock: o.Clock, Log: log}
}

// New makes a node of a machine that has joined (membership.Enroll). Nothing is opened to the
// network yet.
func New(o Options, id pki.Identity) (*Node, error) {
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultInterval
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.standing == nil {
		o.standing = &standing{state: api.MemberUnreachable, since: time.Now().UTC()}
	}
	o.Name = id.Name()
	if o.Clock == nil {
		o.Clock = clockwork.NewRealClock()
	}
	n := &Node{opts: o, log: o.Log.With("component", "cluster"), started: time.Now(), calls: gate.NewCalls(), asked: map[string]time.Time{}}
	var err error
	if n.members, err = membership.New(o.membership(n.log), id); err != nil {
		return nil, err
	}
	n.images = images.New(images.Options{Listen: o.Registry, Manager: o.Manager, Credentials: n.members.Credentials(), HTTP: n.members.Manager().HTTP, Dial: n.dialForMove, Log: n.log})
	if n.reports, err = openOutbox(filepath.Join(o.Dir, "outbox"), keepReports, o.Log); err != nil {
		return nil, err
	}
	if n.profiles, err = openOutbox("", keepProfiles, o.Log); err != nil {
		return nil, err
	}
	if n.sequence, err = openSequence(filepath.Join(o.Dir, "sequence")); err != nil {
		return nil, err
	}
	if n.incoming, err = incoming.Open(incoming.Options{Engine: o.Engine, Members: n.members, Images: n.images, Dir: filepath.Join(o.Dir, "guests"), AcceptFrom: o.AcceptFrom,
		Calls: n.calls, Stall: o.stall, Audit: o.Audit, Clock: o.Clock, Log: n.log,
		Refused: o.standing.refused, Apply: n.applyArrived, Report: n.reportArrived}); err != nil {
		return nil, err
	}
	n.moves, err = outgoing.Open(outgoing.Options{Engine: o.Engine, Members: n.members, Images: n.images, Dial: n.dialForMove, Dir: filepath.Join(o.Dir, "moves"),
		Audit: o.Audit, Log: n.log, Settings: n.settings, Report: n.reportMove})
	return n, err
}

// Name returns this node's name in the cluster.
func (n *Node) Name() string { return n.opts.Name }

// Listen opens the address for other nodes.
func (n *Node) Listen() error {
	if n.opts.Engine == nil {
		return nil
	}
	ln, err := net.Listen("tcp", n.opts.Listen)
	if err != nil {
		return &refusal.Error{Kind: refusal.Invalid, Field: "cluster.listen", Value: n.opts.Listen, Msg: fmt.Sprintf("cannot listen: %v", err), Remedy: "choose another HOST:PORT"}
	}
	n.listener = ln
	n.images.Listen()
	return nil
}

// Run takes part until ctx ends.
func (n *Node) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	if n.opts.Engine != nil {
		running.Go(func() { n.incoming.Run(ctx, n.listener) })
	}
	running.Go(func() { n.images.Serve(ctx) })
	running.Go(func() { n.sample(ctx) })
	running.Go(func() { n.lookAtEngine(ctx) })
	running.Go(func() { n.members.Run(ctx) })
	for ctx.Err() == nil {
		info, ok := n.ask(ctx)
		if !ok {
			break
		}
		n.moves.Resume(ctx)
		n.talk(ctx, info)
	}
	n.moves.Wait()
	return nil
}

// ask asks the manager for what a member has to know, until it answers.
func (n *Node) ask(ctx context.Context) (wire.Info, bool) {
	pauses := bus.Pauses()
	for try := 0; ; try++ {
		info, err := n.members.Learn(ctx)
		if err == nil {
			return info, true
		}
		if try == 0 && ctx.Err() == nil {
			n.log.Warn("no manager for now, trying again", "manager", n.opts.Manager, "err", err)
		}
		n.opts.standing.failed(err)
		if !pauses.Wait(ctx) {
			return info, false
		}
	}
}

// advertised returns the address at which other nodes reach this one.
func (n *Node) advertised() string {
	if n.opts.Advertise != "" {
		return n.opts.Advertise
	}
	_, port, _ := net.SplitHostPort(n.listener.Addr().String())
	host, _, _ := net.SplitHostPort(n.opts.Listen)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = n.towards(n.opts.Manager)
	}
	return net.JoinHostPort(host, port)
}

// towards returns this node's own address on the route to another host, "" if there
// is no route. It sends no packet.
func (n *Node) towards(address string) string {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	host, _, _ := net.SplitHostPort(conn.LocalAddr().String())
	return host
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// lookAtEngine keeps what the engine says of itself.
func (n *Node) lookAtEngine(ctx context.Context) {
	if n.opts.Engine == nil {
		return
	}
	for said := ""; ; {
		facts, err := n.opts.Engine.Facts(ctx)
		if err != nil {
			facts = migrate.Facts{}
		}
		n.mu.Lock()
		n.facts = facts
		n.mu.Unlock()
		why := facts.CRIUTrouble
		if err != nil {
			why = err.Error()
		}
		if why != said && why != "" && ctx.Err() == nil {
			n.log.Warn("containers cannot be migrated from or to this node", "why", why)
		}
		said = why
		pause := factsInterval
		if why != "" {
			pause = troubleInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// sample publishes profiles.
func (n *Node) sample(ctx context.Context) {
	if n.opts.Profile == nil {
		return
	}
	tick := time.NewTicker(n.opts.Interval)
	defer tick.Stop()
	for {
		p, err := n.opts.Profile(ctx)
		if err == nil {
			p.V, p.Node = wire.ProfileVersion, n.opts.Name
			p.AcceptFrom = n.acceptFrom()
			n.refusedHere(p)
			err = n.say(n.profiles, wire.Profiles, fmt.Sprintf("%s-%d", n.opts.Name, p.Time.UnixNano()), &p, false)
		}
		if err != nil && ctx.Err() == nil {
			n.log.Warn("no profile", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// say puts a message of this node's into an outbox.
func (n *Node) say(o *outbox, topic wire.Topic, id string, m wire.Message, keep bool) error {
	subject := topic.Of(n.opts.Name)
	data, err := n.members.Seal(subject, id, m)
	if err != nil {
		return err
	}
	return o.add(subject, id, data, keep)
}

// reportMove tells the manager what has become of a move.
func (n *Node) reportMove(r *wire.MoveReport) error {
	return n.say(n.reports, wire.Reports, fmt.Sprintf("%s/%d", r.ID, r.Seq), r, r.State.Final())
}

// HostName returns this machine's name as a node's: the first label of its host name.
func HostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	return strings.ReplaceAll(name, "_", "-")
}
