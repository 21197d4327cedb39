// SPDX-License-Identifier: Apache-2.0

package incoming

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"weir/internal/base/audit"
	"weir/internal/base/crowd"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/node/gate"
	"weir/internal/cluster/node/guest"
	"weir/internal/cluster/node/images"
	"weir/internal/cluster/node/membership"
	"weir/internal/core/wire"
)

// Options say what a Server works with.
type Options struct {
	Engine  *migrate.Local
	Members *membership.Membership
	Images  *images.Registry
	Dir     string // of the records of copies
	// AcceptFrom are the nodes from which containers are taken; nil = all members.
	AcceptFrom []string
	Calls      *gate.Calls   // of other nodes
	Stall      time.Duration // for which a part may stand still; 0 = a minute
	Audit      *audit.Log    // nil = none
	Clock      clockwork.Clock
	Log        *slog.Logger

	// Refused counts a call that was refused, by its reason.
	Refused func(reason string)
	// Apply puts into force what came with a container, which it names by its id, and
	// returns what of it cannot hold here.
	Apply func(ctx context.Context, id string, changes ...wire.ChangeJSON) (problems []string)
	// Report tells the manager that a container has arrived.
	Report func(*wire.Arrived) error
}

// Server lets other nodes migrate their containers to this one.
type Server struct {
	opts     Options
	log      *slog.Logger
	guests   *guests
	settling sync.WaitGroup // settings of containers that have arrived
	ended    context.Context
	end      context.CancelFunc
	refused  crowd.LinesOf // of the log, by node and reason

	mu    sync.Mutex
	begun map[string]time.Time // moves to this node whose first call was served, see mayServe
}

// Open returns a server with the records of former processes.
func Open(o Options) (*Server, error) {
	if o.Stall == 0 {
		o.Stall = partStall
	}
	s := &Server{opts: o, log: o.Log, begun: map[string]time.Time{}}
	s.ended, s.end = context.WithCancel(context.Background())
	var err error
	s.guests, err = openGuests(o.Dir, make(gate.Slots, readingAtOnce), time.Now(), o.Log)
	return s, err
}

// Run answers other nodes at a listener (nil = none are answered), and looks after the
// copies that they have left here, until ctx ends.
func (s *Server) Run(ctx context.Context, ln net.Listener) {
	var running sync.WaitGroup
	running.Go(func() { s.serve(ctx, ln) })
	running.Go(func() { s.lookAfter(ctx) })
	running.Wait()
	s.end()
	s.settling.Wait()
}

// Guest returns the record of a move to this node, and the step or part of it that is
// under way; ok is false if there is none.
func (s *Server) Guest(move string) (r guest.Arrival, doing string, ok bool) {
	v := s.guests.find(move)
	if v == nil {
		return r, "", false
	}
	defer v.mu.Unlock()
	if v.doing != nil {
		doing = v.doing.what
	}
	return v.Clone(), doing, true
}

// Guests returns the records of the moves to this node for which f holds.
func (s *Server) Guests(f func(guest.Arrival) bool) []guest.Arrival {
	return s.guests.these(func(v *entry) bool { return f(v.Arrival) })
}
