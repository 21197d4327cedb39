// SPDX-License-Identifier: Apache-2.0

package warrant

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/core/wire"
)

const (
	// keepMoves is for how long the end of a move is remembered, and a move of which
	// nothing was done: longer than any grant lives.
	keepMoves = 7 * 24 * time.Hour
	// longestMove is how long after its beginning a move may still take steps that do not
	// settle it.
	longestMove = 24 * time.Hour
	// countEvery is between two times that the refusals are written down.
	countEvery = time.Second

	movesDir     = "moves"
	refusedFile  = "refused.json"
	underWayText = "%s of move %s is under way"
)

// Options configure a Ledger.
type Options struct {
	Dir        string // its own; the agent must not be able to write there
	Sources    Sources
	Engine     wire.EngineName
	AcceptFrom []string // cluster.accept_from
	Registry   string   // cluster.registry_listen: where the engine finds the manager's registry
	Now        func() time.Time
	Log        *slog.Logger
}

// Ledger is the helper's record of the moves that the manager has granted.
type Ledger struct {
	opts  Options
	trust *Trust

	mu      sync.Mutex
	moves   map[string]*move
	refused map[string]uint64 // by reason, over restarts
	counted time.Time
}

var _ remote.Guard = (*Ledger)(nil)

// move is a move that was admitted: what was granted, and what was done of it.
type move struct {
	Grant  wire.Grant                 `json:"grant"`
	Order  migrate.Order              `json:"order"`  // as the grant has the hash of
	Source bool                       `json:"source"` // this node is; else the target
	Begun  time.Time                  `json:"begun"`
	Heard  time.Time                  `json:"heard"`
	Done   map[string]migrate.Outcome `json:"done,omitempty"` // steps and parts that have succeeded
	End    migrate.Step               `json:"end,omitempty"`  // the step that settled it

	doing map[string]bool
}

// shorten drops the fields of a move that has ended which no call needs any more: who asks
// again for the step that settled it is answered, and a discard is done again. All that is
// left is bounded by the manager's grant.
func (m *move) shorten() {
	if m.End == "" {
		return
	}
	o, c := m.Order, m.Order.Container
	m.Order = migrate.Order{Move: o.Move, From: o.From, To: o.To, Approach: o.Approach,
		Container: migrate.Container{ID: c.ID, Name: c.Name, Engine: c.Engine, ImageID: c.ImageID}}
	m.Grant.Parts, m.Grant.Change = nil, nil
	maps.DeleteFunc(m.Done, func(what string, _ migrate.Outcome) bool { return !slices.Contains(settling, migrate.Step(what)) })
}

// Open reads what a former process knew. It makes the files that are not there yet.
func Open(o Options) (*Ledger, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Ledger{opts: o, moves: map[string]*move{}, refused: map[string]uint64{}}
	if err := safepath.Folder(filepath.Join(o.Dir, movesDir), 0o700); err != nil {
		return nil, err
	}
	var err error
	if l.trust, err = openTrust(o.Dir, o.Sources, o.Now, o.Log); err != nil {
		return nil, err
	}
	if err := readJSON(filepath.Join(o.Dir, refusedFile), &l.refused); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(o.Dir, movesDir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		m := &move{doing: map[string]bool{}}
		if err := readJSON(file, m); err != nil {
			return nil, err
		}
		l.moves[strings.TrimSuffix(filepath.Base(file), ".json")] = m
	}
	return l, l.forget()
}

// file returns the path of a move's record.
func (l *Ledger) file(id string) string { return filepath.Join(l.opts.Dir, movesDir, id+".json") }

// forget removes the moves that no grant can be about any more. The lock is held, or
// nobody else knows the ledger yet.
func (l *Ledger) forget() error {
	now := l.opts.Now()
	for id, m := range l.moves {
		if len(m.doing) > 0 || m.End == "" && len(m.Done) > 0 || now.Sub(m.Heard) <= keepMoves {
			continue
		}
		if err := os.Remove(l.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		delete(l.moves, id)
	}
	return nil
}

func readJSON(file string, out any) error {
	text, err := safepath.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func writeJSON(file string, in any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return atomicfile.Write(file, text, 0o600)
}

// save writes a move down. The lock is held.
func (l *Ledger) save(m *move) error {
	return writeJSON(l.file(m.Grant.Move), m)
}

// Refused returns how many calls were refused, over restarts.
func (l *Ledger) Refused() (sum uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.refused {
		sum += n
	}
	return sum
}

// Close writes down what was counted.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return writeJSON(filepath.Join(l.opts.Dir, refusedFile), l.refused)
}

// count logs a refusal and counts it. It returns err.
func (l *Ledger) count(verb remote.Verb, what string, err error) error {
	var no *Denied
	if !errors.As(err, &no) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused[no.Reason]++
	l.opts.Log.Warn("call refused", "reason", no.Reason, "verb", string(verb), "of", what, "refused", l.refused[no.Reason], "err", err)
	if now := time.Now(); now.Sub(l.counted) >= countEvery {
		l.counted = now
		if err := writeJSON(filepath.Join(l.opts.Dir, refusedFile), l.refused); err != nil {
			l.opts.Log.Error("refusals cannot be written down", "err", err)
		}
	}
	return err
}

// permission is the manager's signed permission for a call.
type permission struct {
	node  string // this one
	move  wire.Move
	grant *wire.Grant // nil = a Move was shown
}

// permit examines what the agent shows. The lock is held.
func (l *Ledger) permit(w *remote.Warrant) (p permission, err error) {
	if w == nil || len(w.Sealed) == 0 {
		return p, Deny(WhyStranger, migrate.CodeDenied, "the agent shows no order of the manager's")
	}
	if p.node, err = l.trust.node(); err != nil {
		return p, Deny(WhyStranger, migrate.CodeDenied, "the helper does not know its cluster: %v", err)
	}
	e, err := wire.Open(w.Sealed)
	if err == nil && e.Kind == (wire.Grant{}).Kind() {
		p.grant = &wire.Grant{}
		if err = e.Read(p.grant); err == nil {
			p.move = wire.Move{ID: p.grant.Move, Container: p.grant.Container, From: p.grant.From, To: p.grant.To, Deadline: p.grant.Deadline, Registry: p.grant.Registry}
		}
	} else if err == nil {
		err = e.Read(&p.move)
	}
	if err == nil {
		err = l.trust.verify(e, wire.Orders.Of(p.move.From), *w)
	}
	switch {
	case err != nil:
		return p, Deny(WhyForged, migrate.CodeDenied, "order that the agent shows: %v; if the cluster was made anew, remove %s", err, l.trust.file)
	case p.move.From != p.node && p.move.To != p.node:
		return p, Deny(WhyForeign, migrate.CodeDenied, "the agent shows an order for a move from %s to %s", p.move.From, p.move.To)
	}
	return p, nil
}

// late refuses what was to be begun before now.
func (p permission) late(now time.Time) error {
	if now.After(p.move.Deadline.Add(wire.Skew)) {
		return Deny(WhyExpired, migrate.CodeDenied, "the order was to be begun before %s", p.move.Deadline.Format(time.DateTime))
	}
	return nil
}

// Describe implements remote.Guard.
func (l *Ledger) Describe(w *remote.Warrant, name string) error {
	l.mu.Lock()
	p, err := l.permit(w)
	l.mu.Unlock()
	switch {
	case err != nil:
	case p.move.From != p.node:
		err = Deny(WhyNotStep, migrate.CodeDenied, "the target of a move does not describe its containers")
	case p.move.Container != name:
		err = Deny(WhyForeign, migrate.CodeDenied, "the order is about container %.80q", p.move.Container)
	default:
		err = p.late(l.opts.Now())
	}
	return l.count(remote.Describe, name, err)
}

// Lacking implements remote.Guard.
func (l *Ledger) Lacking(w *remote.Warrant, o migrate.Order) error {
	l.mu.Lock()
	p, err := l.permit(w)
	l.mu.Unlock()
	switch {
	case err != nil:
	case p.move.To != p.node:
		err = Deny(WhyNotStep, migrate.CodeDenied, "the source of a move has no step lacking")
	case o.Move != p.move.ID || o.Container.Name != p.move.Container || o.From != p.move.From || o.To != p.move.To:
		err = Deny(WhyForeign, migrate.CodeDenied, "the order is about another move")
	default:
		if err = p.late(l.opts.Now()); err == nil {
			err = l.registry(o.Registry, p.move.Registry)
		}
	}
	return l.count(remote.Lacking, o.Move, err)
}

// registry refuses one that the manager has not named.
func (l *Ledger) registry(asked, granted string) error {
	if asked == "" || asked == granted {
		return nil
	}
	_, port, _ := net.SplitHostPort(l.opts.Registry)
	if granted == wire.OwnRegistry && (asked == l.opts.Registry || port == "0") {
		return nil
	}
	return Deny(WhyAltered, migrate.CodeDenied, "registry %.80q is not the one that the manager has named", asked)
}

// Admit implements remote.Guard.
func (l *Ledger) Admit(w *remote.Warrant) error {
	l.mu.Lock()
	err := l.admit(w)
	l.mu.Unlock()
	return l.count(remote.Admit, "", err)
}

// admit notes a move that was granted. The same again is no harm before anything was
// done. The lock is held.
func (l *Ledger) admit(w *remote.Warrant) error {
	p, err := l.permit(w)
	if err != nil {
		return err
	}
	if p.grant == nil {
		return Deny(WhyStranger, migrate.CodeDenied, "to admit a move needs the manager's grant, and the agent shows an order")
	}
	asked, err := ReadProposal(w.Proposal, *p.grant)
	if err != nil {
		return Deny(WhyAltered, migrate.CodeDenied, "%v", err)
	}
	now := l.opts.Now()
	if was := l.moves[p.grant.Move]; was != nil {
		if was.End == "" && len(was.Done) == 0 && was.Grant.Same(p.grant.Manifest) {
			return nil
		}
		return Deny(WhyReplayed, migrate.CodeDone, "move %s was admitted at %s", p.grant.Move, was.Begun.Format(time.TimeOnly))
	}
	if err := cmp.Or(p.late(now), l.forget()); err != nil {
		return err
	}
	m := &move{Grant: *p.grant, Order: asked.Order, Source: p.move.From == p.node, Begun: now.UTC(), Heard: now.UTC(), doing: map[string]bool{}}
	if !m.Source {
		if err := Accepts(p.node, l.opts.Engine, l.opts.AcceptFrom, p.move.From); err != nil {
			return err
		}
	}
	if err := l.save(m); err != nil {
		return err
	}
	l.moves[p.grant.Move] = m
	l.opts.Log.Info("move admitted", "move", p.grant.Move, "container", p.grant.Container, "from", p.grant.From, "to", p.grant.To)
	return nil
}

// begin notes that a step or part is under way. What it returns is told how that ended,
// and writes it down. The lock is held.
func (l *Ledger) begin(m *move, what string, settles migrate.Step) func(migrate.Outcome, error) error {
	m.doing[what] = true
	m.Heard = l.opts.Now().UTC()
	return func(out migrate.Outcome, err error) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(m.doing, what)
		if err != nil {
			return err
		}
		next := *m
		next.Done = maps.Clone(m.Done)
		if next.Done == nil {
			next.Done = map[string]migrate.Outcome{}
		}
		next.Done[what], next.End = out, cmp.Or(m.End, settles)
		next.shorten()
		if err := l.save(&next); err != nil {
			return err
		}
		*m = next
		return nil
	}
}
