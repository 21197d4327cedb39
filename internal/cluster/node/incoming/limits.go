// SPDX-License-Identifier: Apache-2.0

package incoming

import (
	"context"
	"maps"
	"net/http"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
)

const (
	// maxStep bounds a call that names a step or a part.
	maxStep = 4 << 10
	// readingAtOnce is how many descriptions are decoded at once: that takes some times
	// their size.
	readingAtOnce = 4
	// callTimeout is for a call without its part to come in.
	callTimeout = 30 * time.Second
	// partStall is for how long a part may stand still; its source waits 20 s.
	partStall = time.Minute
	// partTimeout is for a part to come in; longer than the manager lets a move take.
	partTimeout = 6 * time.Hour
)

// limited refuses calls over a limit before anything is read or looked up for them, and
// gives those that it lets in a time to be read.
func (s *Server) limited(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		peer, _, _ := pki.Node(*r.TLS) // strangers, if there are any, are one
		verb := remote.Verb(r.PathValue("verb"))
		leave, over := s.opts.Calls.Enter(peer, verb != remote.Do && verb != remote.Receive)
		if over != nil {
			s.opts.Refused(move.WhyTooMany)
			if s.opts.Calls.Due(peer, time.Now()) {
				s.log.Warn("calls of a node refused", "reason", move.WhyTooMany, "peer", r.RemoteAddr, "from", peer, "err", over)
			}
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Connection", "close") // rather than read what comes behind it
			http.Error(w, over.Msg+"; ask again in a second, as an agent of this version does by itself", api.StatusOf(over.Kind))
			return
		}
		defer leave()
		control := http.NewResponseController(w)
		due := func() { _ = control.SetReadDeadline(time.Now().Add(callTimeout)) }
		due()
		defer due() // for what the handler has left unread
		next(w, r)
	}
}

// mayServe says why a question about a move is refused because of the age of the list of
// members, or nil. The first question about a move needs a fresh list; later ones do not,
// and steps and parts are of moves that were begun: those come to their end without the
// manager.
func (s *Server) mayServe(ctx context.Context, move wire.Move) error {
	now := s.opts.Clock.Now()
	s.mu.Lock()
	_, begun := s.begun[move.ID]
	s.mu.Unlock()
	if begun || s.opts.Engine.Knows(move.ID) {
		return nil
	}
	if err := s.opts.Members.MayBegin(ctx, move.From); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.begun, func(_ string, at time.Time) bool { return now.Sub(at) > keepGuests })
	s.begun[move.ID] = now
	return nil
}
