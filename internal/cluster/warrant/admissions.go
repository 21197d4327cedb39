// SPDX-License-Identifier: Apache-2.0

package warrant

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"sync"
	"time"

	"weir/internal/base/statefile"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
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

// Options configure Admissions.
type Options struct {
	Dir        string // its own; the agent must not be able to write there
	Sources    Sources
	Engine     wire.EngineName
	AcceptFrom []string // cluster.accept_from
	Registry   string   // cluster.registry_listen: where the engine finds the manager's registry
	Now        func() time.Time
	Log        *slog.Logger
}

// Admissions is the helper's record of the moves that the manager has granted.
type Admissions struct {
	opts  Options
	trust *Trust
	files statefile.Folder[admitted]

	mu      sync.Mutex
	moves   map[string]*admitted
	refused map[string]uint64 // by reason, over restarts
	counted time.Time
}

var _ remote.Guard = (*Admissions)(nil)

// admitted is a move that was admitted: what was granted, and what was done of it.
type admitted struct {
	Grant  wire.Grant                     `json:"grant"`
	Order  migrate.MoveSpec               `json:"order"`  // as the grant has the hash of
	Source bool                           `json:"source"` // this node is; else the target
	Begun  time.Time                      `json:"begun"`
	Heard  time.Time                      `json:"heard"`
	Done   map[string]migrate.StepOutcome `json:"done,omitempty"` // steps and parts that have succeeded
	End    move.ContainerState            `json:"end,omitempty"`  // that this node's part came to

	doing map[string]bool
}

// shorten drops the fields of a move that has ended which no call needs any more: who asks
// again for the step that settled it is answered, and a discard is done again. All that is
// left is bounded by the manager's grant.
func (m *admitted) shorten() {
	if m.End == "" {
		return
	}
	o, c := m.Order, m.Order.Container
	m.Order = migrate.MoveSpec{Move: o.Move, From: o.From, To: o.To, Approach: o.Approach,
		Container: migrate.Container{ID: c.ID, Name: c.Name, Engine: c.Engine, ImageID: c.ImageID}}
	m.Grant.Parts, m.Grant.Change = nil, nil
	maps.DeleteFunc(m.Done, func(what string, _ migrate.StepOutcome) bool { return move.Step(what).Leads() == "" })
}

// Open reads what a former process knew. It makes the files that are not there yet.
func Open(o Options) (*Admissions, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Admissions{opts: o, refused: map[string]uint64{}}
	var err error
	if l.files, l.moves, err = statefile.Open[admitted](filepath.Join(o.Dir, movesDir), o.Log); err != nil {
		return nil, err
	}
	if l.trust, err = openTrust(o.Dir, o.Sources, o.Now, o.Log); err != nil {
		return nil, err
	}
	for _, m := range l.moves {
		m.doing = map[string]bool{}
	}
	return l, cmp.Or(l.forget(), statefile.Read(filepath.Join(o.Dir, refusedFile), &l.refused))
}

// forget removes the moves that no grant can be about any more. The lock is held, or
// no other goroutine has the admissions yet.
func (l *Admissions) forget() error {
	now := l.opts.Now()
	for id, m := range l.moves {
		if len(m.doing) > 0 || m.End == "" && len(m.Done) > 0 || now.Sub(m.Heard) <= keepMoves {
			continue
		}
		if err := l.files.Remove(id); err != nil {
			return err
		}
		delete(l.moves, id)
	}
	return nil
}

// Refused returns how many calls were refused, over restarts.
func (l *Admissions) Refused() (sum uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.refused {
		sum += n
	}
	return sum
}

// Close writes down what was counted.
func (l *Admissions) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return statefile.Write(filepath.Join(l.opts.Dir, refusedFile), l.refused)
}

// count logs a refusal and counts it. It returns err.
func (l *Admissions) count(verb remote.Verb, what string, err error) error {
	var no *move.Denied
	if !errors.As(err, &no) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused[no.Reason]++
	l.opts.Log.Warn("call refused", "reason", no.Reason, "verb", string(verb), "of", what, "refused", l.refused[no.Reason], "err", err)
	if now := time.Now(); now.Sub(l.counted) >= countEvery {
		l.counted = now
		if err := statefile.Write(filepath.Join(l.opts.Dir, refusedFile), l.refused); err != nil {
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
func (l *Admissions) permit(w *remote.Warrant) (p permission, err error) {
	if w == nil || len(w.Sealed) == 0 {
		return p, move.Deny(move.WhyStranger, move.CodeDenied, "the agent shows no order of the manager's")
	}
	if p.node, err = l.trust.node(); err != nil {
		return p, move.Deny(move.WhyStranger, move.CodeDenied, "the helper does not know its cluster: %v", err)
	}
	e, err := wire.Open(w.Sealed)
	if err == nil {
		p.move, p.grant, err = e.Permission()
	}
	if err == nil {
		err = l.trust.verify(e, wire.Orders.Of(p.move.From), *w)
	}
	switch {
	case err != nil:
		return p, move.Deny(move.WhyForged, move.CodeDenied, "order that the agent shows: %v; if the cluster was made anew, remove %s", err, l.trust.file)
	case p.move.From != p.node && p.move.To != p.node:
		return p, move.Deny(move.WhyForeign, move.CodeDenied, "the agent shows an order for a move from %s to %s", p.move.From, p.move.To)
	}
	return p, nil
}

// begins returns the question whether something of a move may be begun now.
func (p permission) begins(step move.Step, now time.Time) move.Question {
	c := move.Question{By: move.Helper, Step: step, Move: p.move.ID, Container: p.move.Container, Deadline: p.move.Deadline}
	c.Note(now.After(p.move.Deadline.Add(wire.Skew)), move.Late)
	return c
}

// preflight permits a question before a move, about which facts are noted.
func (l *Admissions) preflight(verb remote.Verb, w *remote.Warrant, of string, note func(permission, *move.Question) error) error {
	l.mu.Lock()
	p, err := l.permit(w)
	l.mu.Unlock()
	c := p.begins(move.Preflight, l.opts.Now())
	if err == nil {
		err = note(p, &c)
	}
	if err == nil {
		_, err = c.Take()
	}
	return l.count(verb, of, err)
}

// Describe implements remote.Guard.
func (l *Admissions) Describe(w *remote.Warrant, name string) error {
	return l.preflight(remote.Describe, w, name, func(p permission, c *move.Question) error {
		c.Note(p.move.From != p.node, move.OtherEnd)
		c.Note(p.move.Container != name, move.Foreign)
		return nil
	})
}

// Lacking implements remote.Guard.
func (l *Admissions) Lacking(w *remote.Warrant, o migrate.MoveSpec) error {
	return l.preflight(remote.Lacking, w, o.Move, func(p permission, c *move.Question) error {
		c.Note(p.move.To != p.node, move.OtherEnd)
		c.Note(o.Move != p.move.ID || o.Container.Name != p.move.Container || o.From != p.move.From || o.To != p.move.To, move.Foreign)
		return l.registry(o.Registry, p.move.Registry)
	})
}

// registry refuses one that the manager has not named.
func (l *Admissions) registry(asked, granted string) error {
	if asked == "" || asked == granted {
		return nil
	}
	_, port, _ := net.SplitHostPort(l.opts.Registry)
	if granted == wire.OwnRegistry && (asked == l.opts.Registry || port == "0") {
		return nil
	}
	return move.Deny(move.WhyAltered, move.CodeDenied, "registry %.80q is not the one that the manager has named", asked)
}

// Admit implements remote.Guard.
func (l *Admissions) Admit(w *remote.Warrant) error {
	l.mu.Lock()
	err := l.admit(w)
	l.mu.Unlock()
	return l.count(remote.Admit, "", err)
}

// admit notes a move that was granted. The same again is no harm before anything was
// done. The lock is held.
func (l *Admissions) admit(w *remote.Warrant) error {
	p, err := l.permit(w)
	if err != nil {
		return err
	}
	if p.grant == nil {
		return move.Deny(move.WhyStranger, move.CodeDenied, "to admit a move needs the manager's grant, and the agent shows an order")
	}
	asked, err := ReadProposal(w.Proposal, *p.grant)
	if err != nil {
		return move.Deny(move.WhyAltered, move.CodeDenied, "%v", err)
	}
	now := l.opts.Now()
	c := p.begins(move.Begin, now)
	c.Note(l.files.Damaged(c.Move), move.Damaged)
	if was := l.moves[p.grant.Move]; was != nil {
		c.Begun = was.Begun
		c.Note(true, move.Known)
		c.Note(!was.Grant.Same(p.grant.Manifest), move.Other)
		c.Note(was.End != "" || len(was.Done) > 0, move.Touched)
	}
	again, err := c.Take()
	if err == nil && !again {
		err = l.forget()
	}
	if again || err != nil {
		return err
	}
	m := &admitted{Grant: *p.grant, Order: asked.Order, Source: p.move.From == p.node, Begun: now.UTC(), Heard: now.UTC(), doing: map[string]bool{}}
	if !m.Source {
		if err := Accepts(p.node, l.opts.Engine, l.opts.AcceptFrom, p.move.From); err != nil {
			return err
		}
	}
	if err := l.files.Put(m.Grant.Move, m); err != nil {
		return err
	}
	l.moves[p.grant.Move] = m
	l.opts.Log.Info("move admitted", "move", p.grant.Move, "container", p.grant.Container, "from", p.grant.From, "to", p.grant.To)
	return nil
}

// begin notes that a step or part is under way. What it returns is told how that ended,
// and writes it down. The lock is held.
func (l *Admissions) begin(m *admitted, what string, end move.ContainerState) func(migrate.StepOutcome, error) error {
	m.doing[what] = true
	m.Heard = l.opts.Now().UTC()
	return func(out migrate.StepOutcome, err error) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(m.doing, what)
		if err != nil {
			return err
		}
		next := *m
		next.Done = maps.Clone(m.Done)
		if next.Done == nil {
			next.Done = map[string]migrate.StepOutcome{}
		}
		next.Done[what], next.End = out, cmp.Or(m.End, end)
		next.shorten()
		if err := l.files.Put(next.Grant.Move, &next); err != nil {
			return err
		}
		*m = next
		return nil
	}
}
