// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/base/crowd"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
)

// Deadlines of the helper. A part may be as long as its container's memory and a pull as
// long as its image, so what bounds them is that they must go on.
const (
	questionLimit = 2 * time.Minute
	stepLimit     = 30 * time.Minute
	partLimit     = 6 * time.Hour
	stalledLimit  = 5 * time.Minute // without a byte of a part
	headerLimit   = 10 * time.Second
	shutdownLimit = 5 * time.Second
)

// limits are the calls that a helper knows, each with the time that its answer may take.
var limits = map[Verb]time.Duration{Facts: questionLimit, Describe: questionLimit, Lacking: questionLimit, Admit: questionLimit, Copy: questionLimit,
	Hold: questionLimit, Release: questionLimit, Do: stepLimit, Send: partLimit, Receive: partLimit}

// Helper answers calls with an engine. Root alone is answered, and gets what a guard
// permits.
type Helper struct {
	engine guarded
	log    *slog.Logger
	idle   time.Duration
	clock  *idleClock
}

// NewHelper makes one that ends when there has been no connection for idle; 0 = never.
func NewHelper(e migrate.Engine, g Guard, idle time.Duration, log *slog.Logger) *Helper {
	return &Helper{engine: guarded{e, g}, log: log, idle: idle}
}

// Serve answers until ctx ends, or until no client has called for the helper's idle time.
func (h *Helper) Serve(ctx context.Context, ln net.Listener) error {
	h.clock = newIdleClock(h.idle)
	srv := crowd.NewServer(h.Handler(), h.log, slog.LevelWarn)
	srv.IdleTimeout, srv.ConnState = headerLimit, h.clock.note
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(&rootOnly{ln, h.log}) }()
	select {
	case err := <-ended:
		return err
	case <-h.clock.done:
	case <-ctx.Done():
		return srv.Close() // the agent's journal settles the calls that are cut off
	}
	end, cancel := context.WithTimeout(context.Background(), shutdownLimit)
	defer cancel()
	return srv.Shutdown(end)
}

// Handler answers the calls of those who may connect.
func (h *Helper) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path+"{verb}", h.serve)
	return mux
}

func (h *Helper) serve(w http.ResponseWriter, r *http.Request) {
	verb := Verb(r.PathValue("verb"))
	limit, known := limits[verb]
	if !known {
		no := refused(fmt.Sprintf("no such call: %.40q", string(verb)))
		h.log.Warn("call refused", "err", no)
		Answer(w, nil, no)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(headerLimit)) // the call itself comes at once
	in, err := Read(r, verb, MaxCall)
	if err != nil {
		h.log.Warn("call refused", "verb", string(verb), "err", err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = control.SetReadDeadline(time.Time{})
	if verb == Send {
		h.send(ctx, w, control, in)
		return
	}
	out, err := h.invoke(ctx, verb, in, &livelyReader{r.Body, control})
	if err != nil {
		h.log.Info("call failed", "verb", string(verb), "step", string(in.Step), "err", err)
	}
	Answer(w, out, err)
}

// invoke answers every call but "send".
func (h *Helper) invoke(ctx context.Context, verb Verb, in Call, rest io.Reader) (any, error) {
	if in.Order != nil && in.Login != nil {
		in.Order.Login = *in.Login
	}
	switch verb {
	case Facts:
		return h.engine.Facts(ctx)
	case Describe:
		return h.engine.describe(ctx, in)
	case Admit:
		return struct{}{}, h.engine.guard.Admit(in.Warrant)
	case Copy:
		if err := h.engine.guard.Copy(in.Name); err != nil {
			return nil, err
		}
		id, running, err := h.engine.Copy(ctx, in.Name)
		return found{id, running}, err
	}
	if in.Order == nil {
		return nil, refused("a call without an order: " + string(verb))
	}
	switch verb {
	case Lacking:
		return h.engine.lacking(ctx, in)
	case Do:
		p, err := h.engine.guard.Take(verb, in.Step, "", *in.Order)
		return pass(p, err, func(o migrate.MoveSpec) (migrate.StepOutcome, error) { return h.engine.Do(ctx, in.Step, o) })
	case Receive:
		if in.Part == nil {
			return nil, refused("a part without a name")
		}
		p, err := h.engine.guard.Take(verb, move.Receive, in.Part.String(), *in.Order)
		return pass(p, err, func(o migrate.MoveSpec) (migrate.StepOutcome, error) { return h.engine.Receive(ctx, *in.Part, o, rest) })
	case Hold, Release:
		p, err := h.engine.guard.Take(verb, move.Step(verb), "", *in.Order)
		return pass(p, err, func(o migrate.MoveSpec) (migrate.StepOutcome, error) {
			if verb == Hold {
				return migrate.StepOutcome{}, h.engine.Hold(ctx, o)
			}
			return migrate.StepOutcome{}, h.engine.Release(ctx, o)
		})
	}
	return nil, refused("no such call: " + string(verb))
}

// send writes a part, and how it ended behind it.
func (h *Helper) send(ctx context.Context, w http.ResponseWriter, control *http.ResponseController, in Call) {
	if in.Part == nil || in.Order == nil {
		Answer(w, nil, refused("a part without a name or an order"))
		return
	}
	p, err := h.engine.guard.Take(Send, move.Send, in.Part.String(), *in.Order)
	if err != nil {
		Answer(w, nil, err)
		return
	}
	w.Header().Set("Trailer", endTrailer)
	out, err := pass(p, nil, func(o migrate.MoveSpec) (migrate.StepOutcome, error) {
		return h.engine.Send(ctx, *in.Part, o, &livelyWriter{w, control})
	})
	end := ending{Outcome: out}
	if !errors.As(err, &end.Definite) && err != nil {
		end.Error = err.Error()
	}
	w.Header().Set(endTrailer, end.String())
}

// livelyReader fails if nothing comes for too long.
type livelyReader struct {
	io.Reader
	control *http.ResponseController
}

func (l *livelyReader) Read(p []byte) (int, error) {
	if err := l.control.SetReadDeadline(time.Now().Add(stalledLimit)); err != nil {
		return 0, err
	}
	return l.Reader.Read(p)
}

// livelyWriter fails if nothing is taken for too long.
type livelyWriter struct {
	io.Writer
	control *http.ResponseController
}

func (l *livelyWriter) Write(p []byte) (int, error) {
	if err := l.control.SetWriteDeadline(time.Now().Add(stalledLimit)); err != nil {
		return 0, err
	}
	return l.Writer.Write(p)
}

// rootOnly accepts connections of root's processes and closes the others.
type rootOnly struct {
	net.Listener
	log *slog.Logger
}

func (r *rootOnly) Accept() (net.Conn, error) {
	for {
		conn, err := r.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(conn)
		if err == nil && uid == uint32(os.Geteuid()) {
			return conn, nil
		}
		r.log.Warn("connection refused: the helper serves root alone", "uid", uid, "err", err)
		conn.Close()
	}
}

// peerUID returns the user of the process that connected.
func peerUID(conn net.Conn) (uint32, error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("not a unix socket: %T", conn)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	if ctlErr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); ctlErr != nil || err != nil {
		return 0, errors.Join(ctlErr, err)
	}
	return peer.Uid, nil
}

// idleClock says when there has been no connection for a while.
type idleClock struct {
	limit time.Duration
	done  chan struct{}

	mu    sync.Mutex
	open  map[net.Conn]bool
	timer *time.Timer
}

func newIdleClock(limit time.Duration) *idleClock {
	c := &idleClock{limit: limit, done: make(chan struct{}), open: map[net.Conn]bool{}}
	if limit > 0 {
		c.timer = time.AfterFunc(limit, c.ring)
	}
	return c
}

func (c *idleClock) ring() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) == 0 {
		select {
		case <-c.done:
		default:
			close(c.done)
		}
	}
}

// note is told of each connection (http.Server.ConnState).
func (c *idleClock) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
		if c.timer != nil && len(c.open) == 0 {
			c.timer.Reset(c.limit)
		}
	}
}
