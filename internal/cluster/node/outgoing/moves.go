// SPDX-License-Identifier: Apache-2.0

package outgoing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"weir/internal/base/audit"
	"weir/internal/base/safepath"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/node/images"
	"weir/internal/cluster/node/membership"
	"weir/internal/core/wire"
)

const (
	keepMoves   = 7 * 24 * time.Hour // for which an order that comes again is known
	resumePause = 5 * time.Second    // between two tries to end what was interrupted
	// longestPause is what it grows to while only something on another node is in the way.
	longestPause = time.Minute
)

// Options say what Moves work with.
type Options struct {
	Engine  *migrate.Local // nil = every order is refused
	Members *membership.Membership
	Images  *images.Registry
	// Dial connects to other nodes: the packets are a
	// migration's.
	Dial  func(ctx context.Context, network, address string) (net.Conn, error)
	Dir   string     // of records and journals
	Audit *audit.Log // nil = none
	Log   *slog.Logger

	// Settings returns what was set at run time for a container, to go with it.
	Settings func(ctx context.Context, container string) wire.ChangeJSON
	// Report tells the manager what has become of a move.
	Report func(*wire.MoveReport) error
}

// Moves are the migrations of this node: those that it began, as their source.
type Moves struct {
	Receipts Receipts // of moves, and of other orders
	opts     Options
	log      *slog.Logger
	journals migrate.Journals
	former   map[string]*Receipt // until Resume
	active   sync.WaitGroup
	once     sync.Once

	mu      sync.Mutex
	open    map[string]*wire.MoveReport // under way: the last report
	cancels map[string]*canceller       // of those under way
}

// Open returns the moves of a folder. Those that a former process has left rest until
// Resume.
func Open(o Options) (*Moves, error) {
	records, former, err := openReceipts(o.Dir, time.Now(), o.Log)
	if err != nil {
		return nil, err
	}
	m := &Moves{Receipts: records, former: former, opts: o, log: o.Log, journals: migrate.Journals{Dir: filepath.Join(o.Dir, "journal")}, open: map[string]*wire.MoveReport{}, cancels: map[string]*canceller{}}
	if err := safepath.Folder(m.journals.Dir, 0o700); err != nil {
		return nil, err
	}
	return m, m.journals.Expire(keepMoves)
}

// Running returns the ids of the moves under way.
func (m *Moves) Running() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []string
	for id := range m.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Wait ends when all have come to a rest; those that the end of the process cuts off
// go on with the next.
func (m *Moves) Wait() { m.active.Wait() }

// Obey begins a move, or says again what became of it.
func (m *Moves) Obey(ctx context.Context, order wire.Move, sealed []byte, stale error) error {
	m.mu.Lock()
	last := m.open[order.ID]
	m.mu.Unlock()
	if last != nil {
		return m.tell(*last)
	}
	k, known := m.Receipts.Load(order.ID)
	switch {
	case known && k.Report != nil:
		again := *k.Report
		again.Seq = 0
		return m.tell(again)
	case known:
		return nil // resume will deal with it
	case errors.Is(stale, wire.ErrLate):
		return m.refuse(order, stale.Error())
	case stale != nil:
		return nil
	case time.Now().After(order.Deadline):
		return m.refuse(order, "the order came too late: it was to be begun before "+order.Deadline.Format(time.TimeOnly))
	case m.opts.Engine == nil:
		return m.refuse(order, "node "+m.opts.Members.Name()+" has no container engine")
	}
	if !order.DryRun {
		if err := m.Receipts.Save(order.ID, Receipt{Order: sealed}); err != nil {
			return m.refuse(order, fmt.Sprintf("the order cannot be kept: %v", err))
		}
	}
	begun := wire.MoveReport{ID: order.ID, Node: m.opts.Members.Name(), Step: "pre-flight", State: wire.MoveRunning}
	m.mu.Lock()
	if other := m.moving(order.Container); other != "" && !order.DryRun {
		m.mu.Unlock()
		return m.refuse(order, fmt.Sprintf("move %s of %s is under way here; order it again when that has ended", other, order.Container))
	}
	m.open[order.ID] = &begun
	cancels := &canceller{}
	if !order.DryRun {
		cancels.container = order.Container
	}
	m.cancels[order.ID] = cancels
	m.mu.Unlock()
	m.active.Go(func() { m.carryOut(ctx, order, sealed, cancels) })
	return m.tell(begun)
}

// refuse reports an order of which nothing was begun.
func (m *Moves) refuse(order wire.Move, why string) error {
	return m.finish(order, wire.MoveReport{State: wire.MoveRefused, Error: why})
}

// tell sends a report.
func (m *Moves) tell(r wire.MoveReport) error {
	r.Node = m.opts.Members.Name()
	r.Step, r.Error = wire.Clip(r.Step, wire.MaxName), wire.Clip(r.Error, wire.MaxText)
	r.Seq = uint64(time.Now().UnixNano())
	m.mu.Lock()
	if _, ok := m.open[r.ID]; ok {
		m.open[r.ID] = &r
	}
	m.mu.Unlock()
	return m.opts.Report(&r)
}

// finish writes the end of a move down and sends it.
func (m *Moves) finish(order wire.Move, r wire.MoveReport) error {
	r.ID = order.ID
	m.recordEnd(order, r)
	if !order.DryRun {
		k, _ := m.Receipts.Load(order.ID)
		k.Report = &r
		if err := m.Receipts.Save(order.ID, k); err != nil {
			m.log.Error("end of a move cannot be kept", "move", order.ID, "err", err)
		}
	}
	err := m.tell(r)
	m.mu.Lock()
	m.gone(order.ID)
	m.mu.Unlock()
	return err
}

// moving returns the move of a container that is under way here, "" if there is none.
// The manager orders one at a time, unless it was restored from a snapshot of before.
// The lock is held.
func (m *Moves) moving(container string) string {
	for id, c := range m.cancels {
		if c.container == container {
			return id
		}
	}
	return ""
}

// gone forgets a move that is not under way here any more. The lock is held.
func (m *Moves) gone(id string) {
	delete(m.open, id)
	delete(m.cancels, id)
}
