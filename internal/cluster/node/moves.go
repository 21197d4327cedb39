// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/atomicfile"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/node/guest"
	"weir/internal/cluster/node/membership"
	"weir/internal/cluster/warrant"
	"weir/internal/cluster/wire"
	"weir/internal/refusal"
	"weir/internal/retry"
)

const (
	keepMoves   = 7 * 24 * time.Hour // for which an order that comes again is known
	resumePause = 5 * time.Second    // between two tries to end what was interrupted
	// longestPause is what it grows to while only something on another node is in the way.
	longestPause = time.Minute
)

// moves are the migrations of this node: those that it began, as their source.
type moves struct {
	node     *Node
	dir      string
	journals migrate.Journals
	active   sync.WaitGroup
	once     sync.Once

	mu      sync.Mutex
	open    map[string]*wire.MoveReport // under way: the last report
	cancels map[string]*canceller       // of those under way
}

// kept is the file of a move or of another order: what came of it, the order itself,
// and the manager's grant.
type kept struct {
	Order  []byte            `json:"order,omitempty"`
	Grant  []byte            `json:"grant,omitempty"` // what the target asks for once something is changed there
	Report *wire.MoveReport  `json:"report,omitempty"`
	Policy *wire.ApplyReport `json:"policy,omitempty"`
}

func openMoves(n *Node, dir string) (*moves, error) {
	m := &moves{node: n, dir: dir, journals: migrate.Journals{Dir: filepath.Join(dir, "journal")}, open: map[string]*wire.MoveReport{}, cancels: map[string]*canceller{}}
	if err := os.MkdirAll(m.journals.Dir, 0o700); err != nil {
		return nil, err
	}
	return m, m.forgetOld(time.Now())
}

// forgetOld removes the records of moves that are older than keepMoves: no order
// asks about them any more.
func (m *moves) forgetOld(now time.Time) error {
	files, err := filepath.Glob(filepath.Join(m.dir, "*.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && now.Sub(info.ModTime()) > keepMoves {
			os.Remove(file)
		}
	}
	return m.journals.Expire(keepMoves)
}

// file returns the path of an order's file. The manager chose the order's id, so it
// is cleaned.
func (m *moves) file(id string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, id)
	return filepath.Join(m.dir, clean+".json")
}

func (m *moves) load(id string) (kept, bool) {
	var k kept
	text, err := os.ReadFile(m.file(id))
	return k, err == nil && json.Unmarshal(text, &k) == nil
}

func (m *moves) save(id string, k kept) error {
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return atomicfile.Write(m.file(id), text, 0o600)
}

// running returns the ids of the moves under way.
func (m *moves) running() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []string
	for id := range m.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// wait ends when all have come to a rest; those that the end of the process cuts off
// go on with the next.
func (m *moves) wait() { m.active.Wait() }

// obey begins a move, or says again what became of it.
func (m *moves) obey(ctx context.Context, order wire.Move, sealed []byte, stale error) error {
	m.mu.Lock()
	last := m.open[order.ID]
	m.mu.Unlock()
	if last != nil {
		return m.tell(*last)
	}
	k, known := m.load(order.ID)
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
	case m.node.opts.Engine == nil:
		return m.refuse(order, "node "+m.node.opts.Name+" has no container engine")
	}
	if !order.DryRun {
		if err := m.save(order.ID, kept{Order: sealed}); err != nil {
			return m.refuse(order, fmt.Sprintf("the order cannot be kept: %v", err))
		}
	}
	begun := wire.MoveReport{ID: order.ID, Node: m.node.opts.Name, Step: "pre-flight", State: wire.MoveRunning}
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
func (m *moves) refuse(order wire.Move, why string) error {
	return m.finish(order, wire.MoveReport{State: wire.MoveRefused, Error: why})
}

// tell sends a report.
func (m *moves) tell(r wire.MoveReport) error {
	r.Node = m.node.opts.Name
	r.Step, r.Error = wire.Clip(r.Step, wire.MaxName), wire.Clip(r.Error, wire.MaxText)
	r.Seq = uint64(time.Now().UnixNano())
	m.mu.Lock()
	if _, ok := m.open[r.ID]; ok {
		m.open[r.ID] = &r
	}
	m.mu.Unlock()
	return m.node.say(m.node.reports, wire.Reports, fmt.Sprintf("%s/%d", r.ID, r.Seq), &r, r.State.Final())
}

// finish writes the end of a move down and sends it.
func (m *moves) finish(order wire.Move, r wire.MoveReport) error {
	r.ID = order.ID
	m.node.recordEnd(order, r)
	if !order.DryRun {
		k, _ := m.load(order.ID)
		k.Report = &r
		if err := m.save(order.ID, k); err != nil {
			m.node.log.Error("end of a move cannot be kept", "move", order.ID, "err", err)
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
func (m *moves) moving(container string) string {
	for id, c := range m.cancels {
		if c.container == container {
			return id
		}
	}
	return ""
}

// gone forgets a move that is not under way here any more. The lock is held.
func (m *moves) gone(id string) {
	delete(m.open, id)
	delete(m.cancels, id)
}

// carryOut takes one migration from the pre-flight to its end.
func (m *moves) carryOut(ctx context.Context, order wire.Move, sealed []byte, cancels *canceller) {
	log := m.node.log.With("move", order.ID, "container", order.Container, "to", order.To)
	log.Info("move begins", "why", order.Why, "dry_run", order.DryRun)
	target := m.node.target(order, sealed)
	checking, checked := cancels.preflight(m.node.members.WithWarrant(ctx, sealed, nil))
	defer checked()
	var plan migrate.Plan
	login := m.node.images.PushLogin(order)
	defer m.node.images.Revoke(login)
	err := m.node.members.AwaitBegin(checking, order)
	var registry string
	if err == nil {
		registry, err = m.node.images.Usable(checking, order)
	}
	if err == nil {
		plan, err = migrate.Check(checking, m.node.opts.Engine, target, migrate.Request{Move: order.ID, Container: order.Container,
			Approach: migrate.Approach(order.Approach), Registry: registry})
	}
	if err == nil {
		err = plan.Err()
	}
	var granted []byte
	if err == nil && !order.DryRun {
		granted, err = m.propose(checking, order, plan.Order, target)
	}
	if err != nil && ctx.Err() == nil {
		err = cmp.Or(context.Cause(checking), err)
	}
	r := wire.MoveReport{State: wire.MoveRefused, Step: "pre-flight"}
	switch {
	case err != nil:
		r.Error, r.Code = strings.Join(strings.Split(err.Error(), "\n"), "; "), migrate.Lasting(err)
	case order.DryRun:
		r.State = wire.MoveDone
		var notes []string
		for _, f := range plan.Findings {
			notes = append(notes, f.String())
		}
		r.Error = strings.Join(notes, "; ")
	default:
		err := m.save(order.ID, kept{Order: sealed, Grant: granted})
		var journal *migrate.Journal
		if err == nil {
			plan.Order.Login = login
			journal, err = m.journals.Begin(plan.Order)
		}
		if err != nil {
			r.Error = err.Error()
			break
		}
		defer journal.Close()
		cancels.hand(journal.Cancel)
		result, err := migrate.Run(ctx, m.node.opts.Engine, target, journal, m.progress(order))
		m.ended(ctx, order, result, err, target, journal)
		m.tidy(ctx, order, target, journal)
		return
	}
	log.Info("move refused", "dry_run", order.DryRun, "err", r.Error)
	if err := m.finish(order, r); err != nil {
		log.Error("end of the move cannot be reported", "err", err)
	}
}

// propose describes the container to the manager, by a hash, and with its grant to the
// target. Nothing has been touched yet.
func (m *moves) propose(ctx context.Context, order wire.Move, o migrate.Order, target *remoteNode) (granted []byte, err error) {
	o = guest.Travelling(o)
	o.Registry = "" // each node has its own way there
	text, err := json.Marshal(warrant.Proposal{Order: o, Settings: m.policy(ctx, order.Container)})
	if err == nil {
		err = guest.Describable(order.Container, text)
	}
	if err != nil {
		return nil, err
	}
	for pauses := bus.Pauses(); ; {
		answer, err := membership.Ask[wire.GrantAnswer](ctx, m.node.members.Manager(), http.MethodPost, "/v1/grants", warrant.ManifestOf(o, text))
		if err == nil {
			if err = m.node.opts.Engine.Admit(m.node.members.WithWarrant(ctx, answer.Grant, text)); err == nil {
				err = target.begin(ctx, text, answer.Grant)
			}
			return answer.Grant, err
		}
		// The container runs on meanwhile, and the order is good for some minutes.
		if !passing(err) || time.Now().After(order.Deadline) || !pauses.Wait(ctx) {
			return nil, fmt.Errorf("the manager does not grant the move: %w", err)
		}
	}
}

// passing reports whether an error of a question to the manager may be gone when it is
// asked again: the manager cannot be reached, or says so.
func passing(err error) bool {
	return errors.Is(err, membership.ErrUnreachable) || refusal.Is(err, refusal.Busy)
}

// progress reports the beginning and the end of each step, and how it goes on, not more
// than a few times a second.
func (m *moves) progress(order wire.Move) func(migrate.Progress) {
	var last time.Time
	var step string
	return func(p migrate.Progress) {
		if !p.Done && p.Step == step && time.Since(last) < 500*time.Millisecond {
			return
		}
		last, step = time.Now(), p.Step
		r := wire.MoveReport{ID: order.ID, Step: p.Step, State: wire.MoveRunning, Bytes: uint64(max(p.Outcome.Bytes, 0)), Duration: p.Duration, Error: p.Err}
		if err := m.tell(r); err != nil {
			m.node.log.Warn("progress cannot be reported", "move", order.ID, "err", err)
		}
	}
}

// ended takes a migration to its end, whatever has happened: it resumes an unfinished one
// until that is finished, or until this process ends; then the next process resumes it.
func (m *moves) ended(ctx context.Context, order wire.Move, result migrate.Result, err error, target migrate.Node, journal *migrate.Journal) {
	for err != nil {
		m.node.log.Warn("move is unfinished, trying again", "move", order.ID, "err", err)
		select {
		case <-ctx.Done():
			m.mu.Lock()
			m.gone(order.ID)
			m.mu.Unlock()
			return
		case <-time.After(resumePause):
		}
		result, err = migrate.Resume(ctx, m.node.opts.Engine, target, journal, m.progress(order))
	}
	r := wire.MoveReport{State: wire.MoveState(result.State), Downtime: result.Downtime, Error: cmp.Or(result.Err, result.Warning)}
	if err := m.finish(order, r); err != nil {
		m.node.log.Error("end of the move cannot be reported", "move", order.ID, "err", err)
	}
	m.node.log.Info("move ended", "move", order.ID, "container", order.Container, "to", order.To, "state", r.State, "downtime", r.Downtime, "bytes", result.Bytes, "err", r.Error)
}

// tidy removes what a move that was rolled back has left on a target that could not be
// reached. The move has ended, and been reported, without it.
func (m *moves) tidy(ctx context.Context, order wire.Move, target migrate.Node, journal *migrate.Journal) {
	if journal.Phase() != migrate.PhaseOver && ctx.Err() == nil {
		m.node.log.Warn("what was made for a move is still on its target", "move", order.ID, "container", order.Container, "to", order.To)
	}
	for pauses := retry.New(resumePause, longestPause); journal.Phase() != migrate.PhaseOver; {
		if !pauses.Wait(ctx) {
			return // the next process will
		}
		if _, err := migrate.Resume(ctx, m.node.opts.Engine, target, journal, nil); err == nil && journal.Phase() == migrate.PhaseOver {
			m.node.log.Info("what was made for a move is removed from its target", "move", order.ID, "container", order.Container, "to", order.To)
		}
	}
}

// resume goes on with what a former process has left, once.
func (m *moves) resume(ctx context.Context) {
	m.once.Do(func() {
		if m.node.opts.Engine == nil {
			return
		}
		list, err := m.journals.Unfinished()
		if err != nil {
			m.node.log.Error("migrations of before cannot be looked at", "err", err)
		}
		begun := map[string]bool{}
		for _, journal := range list {
			id := journal.Order().Move
			begun[id] = true
			k, _ := m.load(id)
			order, ok := m.node.orderOf(k.Order)
			if !ok {
				journal.Close()
				continue
			}
			if k.Report != nil { // all but the tidying up is done
				m.active.Go(func() {
					defer journal.Close()
					m.tidy(ctx, order, m.node.target(order, k.Grant), journal)
				})
				continue
			}
			m.mu.Lock()
			m.open[id] = &wire.MoveReport{ID: id, State: wire.MoveRunning, Step: "resume"}
			m.cancels[id] = &canceller{do: journal.Cancel, container: order.Container}
			m.mu.Unlock()
			m.node.log.Info("move goes on after a restart", "move", id, "container", order.Container, "to", order.To)
			m.active.Go(func() {
				defer journal.Close()
				target := m.node.target(order, k.Grant)
				result, err := migrate.Resume(ctx, m.node.opts.Engine, target, journal, m.progress(order))
				m.ended(ctx, order, result, err, target, journal)
				m.tidy(ctx, order, target, journal)
			})
		}
		m.neverBegun(begun)
	})
}

// neverBegun ends orders that were accepted by a process that died before it had
// touched anything.
func (m *moves) neverBegun(begun map[string]bool) {
	files, _ := filepath.Glob(filepath.Join(m.dir, "*.json"))
	for _, file := range files {
		id := strings.TrimSuffix(filepath.Base(file), ".json")
		k, ok := m.load(id)
		if !ok || k.Report != nil || k.Policy != nil || begun[id] {
			continue
		}
		order, ok := m.node.orderOf(k.Order)
		if !ok {
			continue
		}
		if j, err := m.journals.Open(id); err == nil { // it ended, and only that was not said
			r := wire.MoveReport{State: wire.MoveFailed, Error: "the agent was restarted at its end; see weir ps where it runs"}
			for _, record := range j.Records() {
				if record.State != "" {
					r.State, r.Error, r.Downtime = wire.MoveState(record.State), record.Err, record.Downtime
				}
			}
			j.Close()
			_ = m.finish(order, r)
			continue
		}
		_ = m.refuse(order, "the agent was restarted before it began")
	}
}

// orderOf returns a move out of its envelope, of which this node is the source.
func (n *Node) orderOf(sealed []byte) (wire.Move, bool) {
	var m wire.Move
	e, err := n.members.Verify(sealed, wire.Orders.Of(n.opts.Name))
	if err == nil {
		err = e.Read(&m)
	}
	return m, err == nil
}

// apply puts a policy into force that the manager orders, once. Of one that must not be
// begun any more nothing is reported: the manager asks again if it still wants it.
func (n *Node) apply(ctx context.Context, a wire.Apply, stale error) error {
	if k, known := n.moves.load(a.ID); known && k.Policy != nil {
		return n.say(n.reports, wire.Reports, fmt.Sprintf("%s/%d", a.ID, time.Now().UnixNano()), k.Policy, true)
	}
	if stale != nil {
		return nil
	}
	r := &wire.ApplyReport{ID: a.ID, Node: n.opts.Name}
	if err := n.recordedSet(ctx, a); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.Error = wire.Clip(err.Error(), wire.MaxText)
	}
	if err := n.moves.save(a.ID, kept{Policy: r}); err != nil {
		return err
	}
	return n.say(n.reports, wire.Reports, a.ID, r, true)
}
