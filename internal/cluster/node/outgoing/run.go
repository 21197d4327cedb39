// SPDX-License-Identifier: Apache-2.0

package outgoing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"weir/internal/base/retry"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/node/guest"
	"weir/internal/cluster/node/membership"
	"weir/internal/cluster/warrant"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// carryOut takes one migration from the pre-flight to its end.
func (m *Moves) carryOut(ctx context.Context, order wire.Move, sealed []byte, cancels *canceller) {
	log := m.log.With("move", order.ID, "container", order.Container, "to", order.To)
	log.Info("move begins", "why", order.Why, "dry_run", order.DryRun)
	target := m.Target(order, sealed)
	checking, checked := cancels.preflight(m.opts.Members.WithWarrant(ctx, sealed, nil))
	defer checked()
	var plan migrate.Plan
	login := m.opts.Images.PushLogin(order)
	defer m.opts.Images.Revoke(login)
	err := m.opts.Members.AwaitBegin(checking, order)
	var registry string
	if err == nil {
		registry, err = m.opts.Images.Usable(checking, order)
	}
	if err == nil {
		plan, err = migrate.Check(checking, m.opts.Engine, target, migrate.Request{Move: order.ID, Container: order.Container,
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
		err := m.Receipts.Save(order.ID, Receipt{Order: sealed, Grant: granted})
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
		result, err := migrate.Run(ctx, m.opts.Engine, target, journal, m.progress(order))
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
func (m *Moves) propose(ctx context.Context, order wire.Move, o migrate.MoveSpec, target *Target) (granted []byte, err error) {
	o = guest.Travelling(o)
	o.Registry = "" // each node has its own way there
	text, err := json.Marshal(warrant.Proposal{Order: o, Settings: m.opts.Settings(ctx, order.Container)})
	if err == nil {
		err = guest.Describable(order.Container, text)
	}
	if err != nil {
		return nil, err
	}
	for pauses := bus.Pauses(); ; {
		answer, err := membership.Ask[wire.GrantAnswer](ctx, m.opts.Members.Manager(), http.MethodPost, "/v1/grants", warrant.ManifestOf(o, text))
		if err == nil {
			if err = m.opts.Engine.Admit(m.opts.Members.WithWarrant(ctx, answer.Grant, text)); err == nil {
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
func (m *Moves) progress(order wire.Move) func(migrate.Progress) {
	var last time.Time
	var step string
	return func(p migrate.Progress) {
		if !p.Done && p.Step == step && time.Since(last) < 500*time.Millisecond {
			return
		}
		last, step = time.Now(), p.Step
		r := wire.MoveReport{ID: order.ID, Step: p.Step, State: wire.MoveRunning, Bytes: uint64(max(p.Outcome.Bytes, 0)), Duration: p.Duration, Error: p.Err}
		if err := m.tell(r); err != nil {
			m.log.Warn("progress cannot be reported", "move", order.ID, "err", err)
		}
	}
}

// ended takes a migration to its end, whatever has happened: it resumes an unfinished one
// until that is finished, or until this process ends; then the next process resumes it.
func (m *Moves) ended(ctx context.Context, order wire.Move, result migrate.Result, err error, target migrate.Node, journal *migrate.Journal) {
	for err != nil {
		m.log.Warn("move is unfinished, trying again", "move", order.ID, "err", err)
		select {
		case <-ctx.Done():
			m.mu.Lock()
			m.gone(order.ID)
			m.mu.Unlock()
			return
		case <-time.After(resumePause):
		}
		result, err = migrate.Resume(ctx, m.opts.Engine, target, journal, m.progress(order))
	}
	r := wire.MoveReport{State: wire.MoveState(result.State), Downtime: result.Downtime, Error: cmp.Or(result.Err, result.Warning)}
	if err := m.finish(order, r); err != nil {
		m.log.Error("end of the move cannot be reported", "move", order.ID, "err", err)
	}
	m.log.Info("move ended", "move", order.ID, "container", order.Container, "to", order.To, "state", r.State, "downtime", r.Downtime, "bytes", result.Bytes, "err", r.Error)
}

// tidy removes what a move that was rolled back has left on a target that could not be
// reached. The move has ended, and been reported, without it.
func (m *Moves) tidy(ctx context.Context, order wire.Move, target migrate.Node, journal *migrate.Journal) {
	if journal.Phase() != migrate.PhaseOver && ctx.Err() == nil {
		m.log.Warn("what was made for a move is still on its target", "move", order.ID, "container", order.Container, "to", order.To)
	}
	for pauses := retry.New(resumePause, longestPause); journal.Phase() != migrate.PhaseOver; {
		if !pauses.Wait(ctx) {
			return // the next process will
		}
		if _, err := migrate.Resume(ctx, m.opts.Engine, target, journal, nil); err == nil && journal.Phase() == migrate.PhaseOver {
			m.log.Info("what was made for a move is removed from its target", "move", order.ID, "container", order.Container, "to", order.To)
		}
	}
}
