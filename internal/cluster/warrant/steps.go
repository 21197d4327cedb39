// SPDX-License-Identifier: Apache-2.0

package warrant

import (
	"fmt"
	"slices"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
)

// may asks whether a step, or a part, of a move may be taken now. The lock is held.
func (l *Admissions) may(step move.Step, part string, o migrate.MoveSpec) (m *admitted, again bool, err error) {
	c := move.Question{By: move.Helper, Step: step, Part: part, Move: o.Move, Facts: move.Unknown}
	if m = l.moves[o.Move]; m != nil {
		granted := m.Order
		c.State, c.Container, c.Begun, c.Facts = m.End, granted.Container.Name, m.Begun, 0
		_, done := m.Done[c.What()]
		c.Note(done, move.Done)
		c.Note(granted.Container.ID != o.Container.ID || c.Container != o.Container.Name || granted.From != o.From || granted.To != o.To, move.Foreign)
		c.Note(m.Source != (step.OfSource() || step == move.Send), move.OtherEnd)
		c.Note((step == move.Send || step == move.Receive) && (!slices.Contains(m.Grant.Parts, part) || part == migrate.PartCommit), move.Ungranted)
		c.Note(l.opts.Now().Sub(m.Begun) > longestMove, move.Old)
	}
	c.Note(l.files.Damaged(o.Move), move.Damaged)
	again, err = c.Take()
	return m, again, err
}

// Take implements remote.Guard. Once its move has ended, a copy is held no more, and there is
// nothing to release.
func (l *Admissions) Take(verb remote.Verb, step move.Step, part string, o migrate.MoveSpec) (p remote.Passage, err error) {
	l.mu.Lock()
	if verb == remote.Do && !step.OfTarget() && !step.OfSource() {
		err = move.Deny(move.WhyNotStep, move.CodeDenied, "no such step: %.40q", string(step))
	} else {
		p, err = l.pass(step, part, o)
	}
	l.mu.Unlock()
	return p, l.count(verb, fmt.Sprintf("%s %s %s", o.Move, step, part), err)
}

// pass permits a step or a part, once. The lock is held.
func (l *Admissions) pass(step move.Step, part string, o migrate.MoveSpec) (p remote.Passage, err error) {
	what := (&move.Question{Step: step, Part: part}).What()
	m, again, err := l.may(step, part, o)
	switch {
	case err != nil:
		return p, err
	case again: // the answer of a step that settles the move was lost
		out := m.Done[what]
		return remote.Passage{Before: &out}, nil
	case step == move.Hold || step == move.Release: // as often as the agent likes
		return remote.Passage{Order: m.Order, Done: func(_ migrate.StepOutcome, err error) error { return err }}, nil
	}
	if p.Order, err = l.orderFor(m, o); err != nil {
		return p, err
	}
	if m.doing[what] {
		return p, fmt.Errorf(underWayText, what, o.Move) // not definite: ask again
	}
	p.Done = l.begin(m, what, step.Leads())
	return p, nil
}

// orderFor returns the order that the engine gets: the container as it was granted, and
// of the agent's order what a node says of itself.
func (l *Admissions) orderFor(m *admitted, o migrate.MoveSpec) (migrate.MoveSpec, error) {
	if err := l.registry(o.Registry, m.Grant.Registry); err != nil {
		return o, err
	}
	next := m.Order
	next.Registry, next.Login, next.Committed = o.Registry, o.Login, o.Committed
	if made := m.Done[string(move.Commit)].ImageID; m.Source && o.Committed != nil && o.Committed.ImageID != made {
		return o, move.Deny(move.WhyAltered, move.CodeDenied, "image %.80q is not the one that was committed for the move, %q", o.Committed.ImageID, made)
	}
	return next, nil
}

// Copy implements remote.Guard.
func (l *Admissions) Copy(id string) error {
	l.mu.Lock()
	_, _, err := l.may(move.Look, "", migrate.MoveSpec{Move: id})
	l.mu.Unlock()
	return l.count(remote.Copy, id, err)
}
