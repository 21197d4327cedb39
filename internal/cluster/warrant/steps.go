// SPDX-License-Identifier: Apache-2.0

package warrant

import (
	"fmt"
	"slices"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
)

// sourceSteps lists the steps of the node that a container leaves.
var sourceSteps = []migrate.Step{migrate.StepPushImage, migrate.StepPreCopy, migrate.StepFreeze, migrate.StepCommit, migrate.StepPush, migrate.StepForget, migrate.StepThaw}

// settling are the steps that end a move on one node: asked for until they have
// succeeded, however long that takes.
var settling = []migrate.Step{migrate.StepConfirm, migrate.StepDiscard, migrate.StepForget, migrate.StepThaw}

// of finds the move that an order is about. The lock is held.
func (l *Ledger) of(o migrate.Order, source bool) (*move, error) {
	m := l.moves[o.Move]
	switch {
	case m == nil:
		return nil, Deny(WhyUnknown, migrate.CodeGone, "move %.63s was not admitted here", o.Move)
	case m.Order.Container.ID != o.Container.ID || m.Order.Container.Name != o.Container.Name || m.Order.From != o.From || m.Order.To != o.To:
		return nil, Deny(WhyForeign, migrate.CodeDenied, "the grant of move %s is about container %s", o.Move, m.Order.Container.Name)
	case m.Source != source:
		return nil, Deny(WhyNotStep, migrate.CodeDenied, "this node is %s of move %s", m.role(), o.Move)
	}
	return m, nil
}

func (m *move) role() string {
	if m.Source {
		return "the source"
	}
	return "the target"
}

// Step implements remote.Guard.
func (l *Ledger) Step(step migrate.Step, o migrate.Order) (remote.Passage, error) {
	l.mu.Lock()
	p, err := l.step(step, o)
	l.mu.Unlock()
	return p, l.count(remote.Do, o.Move+" "+string(step), err)
}

// step is Step with the lock held.
func (l *Ledger) step(step migrate.Step, o migrate.Order) (p remote.Passage, err error) {
	if !step.OfTarget() && !slices.Contains(sourceSteps, step) {
		return p, Deny(WhyNotStep, migrate.CodeDenied, "no such step: %.40q", string(step))
	}
	m, err := l.of(o, !step.OfTarget())
	if err == nil {
		err = m.mayTake(step, l.opts.Now())
	}
	if err != nil {
		return p, err
	}
	// A settling step, whose answer was lost. A discard is done again: its engine may have
	// made something after it.
	if out, again := m.Done[string(step)]; again && step != migrate.StepDiscard {
		return remote.Passage{Before: &out}, nil
	}
	if p.Order, err = l.orderFor(m, o); err != nil {
		return p, err
	}
	if m.doing[string(step)] {
		return p, fmt.Errorf(underWayText, step, o.Move) // not definite: ask again
	}
	var settles migrate.Step
	if slices.Contains(settling, step) {
		settles = step
	}
	p.Done = l.begin(m, string(step), settles)
	return p, nil
}

// mayTake says whether a step may be taken now.
func (m *move) mayTake(step migrate.Step, now time.Time) error {
	name := m.Order.Container.Name
	_, again := m.Done[string(step)]
	switch {
	case again && slices.Contains(settling, step):
		return nil
	case m.End == migrate.StepConfirm && step == migrate.StepDiscard:
		return Deny(WhyReplayed, migrate.CodeRefused, "the copy of %s is the container by now", name)
	case m.End != "":
		return Deny(WhyReplayed, migrate.CodeGone, "the move of %s came to its end by %s", name, m.End)
	case again:
		return Deny(WhyReplayed, migrate.CodeDone, "%s of %s was done already", step, name)
	case slices.Contains(settling, step):
		return nil
	}
	return m.mayGoOn(now)
}

// mayGoOn refuses what does not settle a move, once it is too old.
func (m *move) mayGoOn(now time.Time) error {
	if now.Sub(m.Begun) > longestMove {
		return Deny(WhyExpired, migrate.CodeDenied, "the move of %s began at %s", m.Order.Container.Name, m.Begun.Format(time.DateTime))
	}
	return nil
}

// orderFor returns the order that the engine gets: the container as it was granted, and
// of the agent's order what a node says of itself.
func (l *Ledger) orderFor(m *move, o migrate.Order) (migrate.Order, error) {
	if err := l.registry(o.Registry, m.Grant.Registry); err != nil {
		return o, err
	}
	next := m.Order
	next.Registry, next.Login, next.Committed = o.Registry, o.Login, o.Committed
	if made := m.Done[string(migrate.StepCommit)].ImageID; m.Source && o.Committed != nil && o.Committed.ImageID != made {
		return o, Deny(WhyAltered, migrate.CodeDenied, "image %.80q is not the one that was committed for the move, %q", o.Committed.ImageID, made)
	}
	return next, nil
}

// Part implements remote.Guard.
func (l *Ledger) Part(verb remote.Verb, part migrate.Part, o migrate.Order) (remote.Passage, error) {
	l.mu.Lock()
	p, err := l.part(verb, part, o)
	l.mu.Unlock()
	return p, l.count(verb, o.Move+" "+part.String(), err)
}

// part is Part with the lock held.
func (l *Ledger) part(verb remote.Verb, part migrate.Part, o migrate.Order) (p remote.Passage, err error) {
	m, err := l.of(o, verb == remote.Send)
	if err != nil {
		return p, err
	}
	what := string(verb) + " " + part.String()
	_, again := m.Done[what]
	switch {
	case m.End != "":
		err = Deny(WhyReplayed, migrate.CodeGone, "the move of %s came to its end by %s", m.Order.Container.Name, m.End)
	case !slices.Contains(m.Grant.Parts, part.String()) || part.String() == migrate.PartCommit:
		err = Deny(WhyAltered, migrate.CodeDenied, "the grant has no part %.80q", part)
	case again:
		err = Deny(WhyReplayed, migrate.CodeDone, "%s of %s was done already", what, m.Order.Container.Name)
	default:
		err = m.mayGoOn(l.opts.Now())
	}
	if err == nil {
		p.Order, err = l.orderFor(m, o)
	}
	if err == nil && m.doing[what] {
		err = fmt.Errorf(underWayText, what, o.Move)
	}
	if err == nil {
		p.Done = l.begin(m, what, "")
	}
	return p, err
}

// Copy implements remote.Guard.
func (l *Ledger) Copy(id string) error {
	l.mu.Lock()
	var err error
	switch m := l.moves[id]; {
	case m == nil:
		err = Deny(WhyUnknown, migrate.CodeGone, "move %.63s was not admitted here", id)
	case m.Source:
		err = Deny(WhyNotStep, migrate.CodeDenied, "this node is %s of move %s", m.role(), id)
	}
	l.mu.Unlock()
	return l.count(remote.Copy, id, err)
}

// Running implements remote.Guard: hold and release. Once its move has ended, a copy is
// held no more, and there is nothing to release.
func (l *Ledger) Running(verb remote.Verb, o migrate.Order) (p remote.Passage, err error) {
	l.mu.Lock()
	m, err := l.of(o, false)
	switch {
	case err != nil:
	case m.End == migrate.StepConfirm && verb == remote.Release:
		p.Before = &migrate.Outcome{}
	case m.End != "":
		err = Deny(WhyReplayed, migrate.CodeGone, "the move of %s came to its end by %s", m.Order.Container.Name, m.End)
	default:
		p.Order, p.Done = m.Order, func(_ migrate.Outcome, err error) error { return err }
	}
	l.mu.Unlock()
	return p, l.count(verb, o.Move, err)
}
