// SPDX-License-Identifier: Apache-2.0

package incoming

import (
	"context"
	"strings"
	"time"

	"weir/internal/cluster/move"
	"weir/internal/cluster/node/guest"
	"weir/internal/core/wire"
)

// lookAtGuests is between two looks at what was left here.
const lookAtGuests = time.Minute

// lookAfter goes on with what a former process has left, and discards what its
// source has abandoned, until ctx ends.
func (s *Server) lookAfter(ctx context.Context) {
	for _, v := range s.guests.these(func(v *entry) bool { return v.End == move.Confirmed && !v.Applied }) {
		s.settle(v.Grant.Move)
	}
	tick := time.NewTicker(lookAtGuests)
	defer tick.Stop()
	for {
		s.Tidy(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Tidy takes one look at what was left here.
func (s *Server) Tidy(ctx context.Context, now time.Time) {
	s.guests.forget(now)
	for _, v := range s.guests.these(func(v *entry) bool { return v.End == "" && now.Sub(v.Heard) > abandonAfter }) {
		s.discardAbandoned(ctx, v.Grant)
	}
	for _, v := range s.guests.these(func(v *entry) bool { return v.End == move.Discarded && !v.Swept && now.Sub(v.Heard) > SweepAfter }) {
		s.sweep(ctx, v.Grant)
	}
}

// discardAbandoned removes a copy that never ran and of which nothing was heard for long.
func (s *Server) discardAbandoned(ctx context.Context, grant wire.Grant) {
	t, err := s.guests.take(ctx, grant, move.Discard, "", time.Now())
	if err != nil {
		return
	}
	out, err := s.opts.Engine.Do(t.ctx, move.Discard, t.order)
	err = t.done(err, func(v *guest.Arrival) { v.Took(time.Now(), move.Discard, out, nil, wire.Statement{}) })
	s.log.Warn("a copy whose source is silent is discarded", "move", grant.Move, "container", grant.Container, "from", grant.From, "err", err)
}

// sweep discards once more what was discarded. An engine's daemon may have ended a step
// after that whose caller had gone. An error is tried again with the next look.
func (s *Server) sweep(ctx context.Context, grant wire.Grant) {
	o, ok := s.guests.toSweep(ctx, grant.Move)
	if !ok {
		return
	}
	_, err := s.opts.Engine.Do(ctx, move.Discard, o)
	if err == nil {
		err = s.guests.note(grant.Move, func(v *guest.Arrival) { v.Swept = true })
	}
	if err != nil {
		s.log.Warn("what was discarded cannot be looked after", "move", grant.Move, "container", grant.Container, "from", grant.From, "err", err)
	}
}

// settle applies what came with a container that was confirmed: its settings, and what
// the manager was asked to find a place for. To nothing else: the source of a move does
// not say what holds here for what it has not sent.
func (s *Server) settle(move string) {
	s.settling.Go(func() {
		v, settings, ok := s.guests.arrivedOf(s.ended, move)
		if !ok || s.ended.Err() != nil {
			return
		}
		problems := s.opts.Apply(s.ended, v.Copy, settings, v.Grant.Change)
		if s.ended.Err() != nil {
			return // the next process will
		}
		log := s.log.With("move", move, "container", v.Grant.Container, "from", v.Grant.From)
		if len(problems) > 0 {
			log.Warn("what came with a container cannot hold here", "err", strings.Join(problems, "; "))
		}
		if err := s.guests.note(move, func(v *guest.Arrival) { v.Applied = true }); err != nil {
			log.Error("that settings were applied cannot be written down", "err", err)
		}
		r := wire.Arrived{Move: move, Node: s.opts.Members.Name(), Error: wire.Clip(strings.Join(problems, "; "), wire.MaxText)}
		if err := s.opts.Report(&r); err != nil {
			log.Error("the manager cannot be told that a container has arrived", "err", err)
		}
	})
}
