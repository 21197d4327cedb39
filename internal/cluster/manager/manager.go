// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"

	"weir/internal/api"
	"weir/internal/base/audit"
	"weir/internal/base/crowd"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/kafka"
	"weir/internal/cluster/bus/natsserver"
	"weir/internal/cluster/manager/membership"
	"weir/internal/cluster/manager/moves"
	"weir/internal/cluster/manager/planning"
	"weir/internal/cluster/manager/statedir"
	"weir/internal/cluster/migrate/registry"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// Options configure a manager.
type Options struct {
	Dir       string         // of the database, the keys and the bus's files
	Listen    string         // host:port where nodes join and ask
	BusListen string         // host:port of the embedded bus
	Bus       bus.Address    // Kind "" = nats
	Registry  string         // host:port of the registry that migrations use; wire.OwnRegistry = the embedded one, "" = none
	Images    registry.Quota // of the embedded registry
	Kafka     kafka.Security // how it connects to the brokers, if they are the bus
	Automatic planning.Automatic
	Version   string
	Audit     *audit.Log // of what changes the cluster; nil = none is kept
	Log       *slog.Logger
	// Clock is what certificates and the list of members go by; nil = the machine's.
	Clock clockwork.Clock
}

// Defaults of the addresses.
const (
	DefaultPort    = 7470
	DefaultBusPort = 7471
)

const (
	keepEnded     = 1000            // moves that have ended
	brokerTimeout = 5 * time.Second // for Kafka's first answer
)

// Manager manages one cluster. Its methods may be called from any goroutine.
type Manager struct {
	opts      Options
	log       *slog.Logger
	db        *statedir.DB
	members   *membership.Members
	started   time.Time
	clock     clockwork.Clock
	bus       bus.Admin
	busPort   int
	images    *registry.Registry // nil = another one, or none
	listener  net.Listener
	refused   atomic.Uint64
	lines     crowd.LinesOf // of the log about refused requests, by member
	strangers *strangers
	serving   pki.Connections // to members
	wake      chan struct{}   // the publisher: orders is not empty

	mu        sync.Mutex
	nodes     map[string]*planning.Node
	moves     map[string]*moves.Move
	places    map[string]*moves.RefusedMin
	applies   map[string]*moves.PendingPolicy
	orders    []order // not yet taken by the bus, in order
	lastOrder uint64
	changed   chan struct{} // closed when a move changes, and made anew
	auto      autoState
	flows     map[string]*flow // by node
}

var _ api.Manager = (*Manager)(nil)

// Init makes a new cluster in dir: the authority, the manager's certificate and a
// first token, for one node.
func Init(dir string, now time.Time) (pki.Token, error) { return InitFor(dir, 1, now) }

// InitFor is Init with a first token that so many nodes may join by, or
// api.AnyNumber.
func InitFor(dir string, uses int, now time.Time) (pki.Token, error) {
	return membership.Create(dir, uses, now)
}

// New reads what a manager needs; nothing is opened to the network yet.
func New(opts Options) (*Manager, error) {
	opts.Dir = cmp.Or(opts.Dir, statedir.Default)
	if opts.Bus.Kind == "" {
		opts.Bus.Kind = bus.NATS
	}
	if opts.Clock == nil {
		opts.Clock = clockwork.NewRealClock()
	}
	m := &Manager{opts: opts, clock: opts.Clock, log: opts.Log, started: time.Now(), wake: make(chan struct{}, 1),
		nodes: map[string]*planning.Node{}, changed: make(chan struct{})}
	m.strangers = newStrangers(m)
	authority, err := pki.LoadAuthority(opts.Dir)
	if errors.Is(err, pki.ErrNone) {
		return nil, &refusal.Error{Kind: refusal.Unknown, Field: "manager.state_dir", Value: opts.Dir, Msg: "no cluster is there", Remedy: "make one first: weir manager init"}
	}
	if err != nil {
		return nil, err
	}
	if m.db, err = statedir.Open(opts.Dir, append(buckets, membership.Buckets...)...); err != nil {
		return nil, err
	}
	if err = m.remember(); err == nil {
		m.members, err = membership.Open(opts.Dir, authority, m.db, m.clock, m.log)
	}
	if err != nil {
		m.db.Close()
		return nil, err
	}
	return m, nil
}

// remember reads the database.
func (m *Manager) remember() error {
	var failed error
	load := func(err error) { failed = cmp.Or(failed, err) }
	var err error
	m.moves, err = bucketMoves.All(m.db)
	load(err)
	m.places, err = bucketPlaces.All(m.db)
	load(err)
	m.applies, err = bucketApplies.All(m.db)
	load(err)
	waiting, err := bucketOrders.All(m.db)
	load(err)
	last, err := statedir.Meta.Get(m.db, metaSequence)
	load(err)
	if failed != nil {
		return fmt.Errorf("manager's database: %w", failed)
	}
	if last != nil {
		m.lastOrder = *last
	}
	// What became of the moves and policies under way is asked as soon as their nodes are
	// heard of: this state may be older than what they have reported.
	for _, mv := range m.moves {
		mv.Heard = time.Time{}
	}
	for _, a := range m.applies {
		a.Heard = time.Time{}
	}
	for _, o := range waiting {
		m.orders = append(m.orders, *o)
	}
	slices.SortFunc(m.orders, func(a, b order) int { return cmp.Compare(a.Seq, b.Seq) })
	return nil
}

// Listen opens the bus and the address where nodes join. It is apart from Run so that
// a mistake is known before anything is served.
func (m *Manager) Listen(ctx context.Context) error {
	if err := m.openBus(ctx); err != nil {
		return err
	}
	if err := m.openImages(); err != nil {
		return errors.Join(err, m.bus.Close())
	}
	ln, err := net.Listen("tcp", m.opts.Listen)
	if err != nil {
		return errors.Join(&refusal.Error{Kind: refusal.Invalid, Field: "manager.listen", Value: m.opts.Listen, Msg: fmt.Sprintf("cannot listen: %v", err), Remedy: "choose another HOST:PORT"}, m.bus.Close(), m.closeImages())
	}
	m.listener = guarded(m, ln)
	return nil
}

func (m *Manager) openBus(ctx context.Context) error {
	if m.opts.Bus.Kind == bus.Kafka {
		b, err := kafka.Dial(m.opts.Bus.Hosts, wire.Manager, m.opts.Kafka, m.log)
		if err != nil {
			return err
		}
		// What the brokers refuse is said now; that they are away may pass.
		asking, cancel := context.WithTimeout(ctx, brokerTimeout)
		defer cancel()
		if err := b.Ping(asking); kafka.Permanent(err) {
			return errors.Join(fmt.Errorf("bus %s (%v): %w", m.opts.Bus, m.opts.Kafka, err), b.Close())
		} else if err != nil {
			m.log.Warn("no broker answers yet, trying again", "bus", m.opts.Bus.String(), "err", err)
		}
		m.bus = b
		return nil
	}
	s, err := natsserver.Serve(ctx, natsserver.ServerOptions{Listen: m.opts.BusListen, Dir: filepath.Join(m.opts.Dir, "bus"),
		Identity: m.members.Credentials(), Member: m.admits, Log: m.log})
	if err != nil {
		return err
	}
	m.bus, m.busPort = s, s.Addr().(*net.TCPAddr).Port
	return nil
}

// admits says whether the holder of a certificate is a member.
func (m *Manager) admits(name string, cert *x509.Certificate) error {
	err := m.members.Admit(name, cert)
	if err != nil {
		m.refused.Add(1)
	}
	return err
}

// Close lets go of a manager that was not run.
func (m *Manager) Close() error {
	var failed error
	if m.listener != nil {
		failed = m.listener.Close()
	}
	if m.bus != nil {
		failed = errors.Join(failed, m.bus.Close())
	}
	return errors.Join(failed, m.closeImages(), m.db.Close())
}

// Addr returns the address at which nodes join. It is valid after Listen.
func (m *Manager) Addr() string { return m.listener.Addr().String() }

// Run manages until ctx ends. Listen must have succeeded before.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() {
		cancel()
		running.Wait()
		if err := errors.Join(m.bus.Close(), m.closeImages(), m.db.Close()); err != nil {
			m.log.Error("manager did not end as it should", "err", err)
		}
	}()
	failed := make(chan error, 1)
	running.Go(func() { m.admitAll(ctx) })
	for topic, handler := range map[wire.Topic]bus.Handler{
		wire.Profiles: m.onProfile, wire.Heartbeats: m.onHeartbeat, wire.Reports: m.onReport} {
		running.Go(func() {
			if err := m.bus.Subscribe(ctx, wire.Manager, topic.All(), handler); err != nil && ctx.Err() == nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	running.Go(func() { m.publish(ctx) })
	running.Go(func() { m.automatic(ctx) })
	running.Go(func() { m.serve(ctx) })
	running.Go(func() { m.tidyImages(ctx) })
	running.Go(func() { m.keepTrust(ctx) })
	members := m.members.Len() // the first may be joining already
	m.log.Info("manager runs", "listen", m.Addr(), "bus", m.opts.Bus.String(), "nodes", members, "registry", m.opts.Registry)
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-second.C:
			m.tick(time.Now())
		}
	}
}

// admitAll makes sure that the bus has what the members need.
func (m *Manager) admitAll(ctx context.Context) {
	for _, name := range m.members.Names() {
		pauses := bus.Pauses()
		for n := 0; ctx.Err() == nil; n++ {
			err := m.bus.Admit(ctx, name)
			if err == nil || !pauses.Wait(ctx) {
				break
			}
			if n == 0 {
				m.log.Warn("node cannot be given its place on the bus, trying again", "node", name, "err", err)
			}
		}
	}
}

// write makes a change of the database, and lets its orders go. The lock is held.
func (m *Manager) write(c *change) error {
	if err := m.db.Write(&c.Transaction); err != nil {
		m.log.Error("state cannot be kept; is the disk full?", "err", err)
		return err
	}
	m.record(c)
	if len(c.orders) > 0 {
		m.orders = append(m.orders, c.orders...)
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// notify wakes the calls that wait for a change of a move. The lock is held.
func (m *Manager) notify() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// BusAddr returns the address at which the embedded bus listens, "" if there is none.
// It is valid after Listen.
func (m *Manager) BusAddr() string {
	if s, ok := m.bus.(*natsserver.Server); ok {
		return s.Addr().String()
	}
	return ""
}

// Bus returns the manager's connection to the bus. Valid after Listen.
func (m *Manager) Bus() bus.Admin { return m.bus }
