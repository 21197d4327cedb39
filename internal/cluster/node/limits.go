// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/pki"
	"weir/internal/refusal"
)

// What other nodes may have this one do at once. A node has guestsEach copies under way
// here, each with one call at a time, and asks a few questions beside them; so an honest
// one meets none of these. One that does is told to come back, and its agent does.
const (
	callsEach = 2 * guestsEach // calls of one node
	// Questions (facts, lacking, begin) are answered without a guest, so all nodes
	// together have a limit for them, of which none gets more than a part.
	questionsEach = 8
	questionsAll  = 64
	// readingAtOnce is how many descriptions are decoded at once: that takes some times
	// their size.
	readingAtOnce = 4
)

const (
	// maxDescription bounds what a container is described by, in bytes of JSON. Most of a
	// long one is the environment and labels of the container.
	maxDescription = 256 << 10
	// maxObjects bounds how many objects a description can have, before it is decoded: an
	// empty one of two bytes takes a hundred in memory.
	maxObjects = 8192
	// maxStep bounds a call that names a step or a part.
	maxStep = 4 << 10
	// callTimeout is for a call without its part to come in.
	callTimeout = 30 * time.Second
	// partStall is for how long a part may stand still; its source waits 20 s.
	partStall = time.Minute
	// partTimeout is for a part to come in; longer than the manager lets a move take.
	partTimeout = 6 * time.Hour
)

// slots bounds how many do something at once.
type slots chan struct{}

// take waits for a slot, or for the end of ctx.
func (s slots) take(ctx context.Context) (done func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// callers counts the calls of other nodes that are under way.
type callers struct {
	mu        sync.Mutex
	calls     map[string]int
	questions map[string]int
	all       int // questions
	said      map[string]time.Time
}

func newCallers() *callers {
	return &callers{calls: map[string]int{}, questions: map[string]int{}, said: map[string]time.Time{}}
}

// enter counts a call until leave. The error is the refusal of a call over a limit.
func (c *callers) enter(peer string, question bool) (leave func(), over *refusal.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.calls[peer] >= callsEach:
		return nil, &refusal.Error{Kind: refusal.TooMany, Msg: fmt.Sprintf("%d calls of node %s are under way here", callsEach, peer)}
	case question && c.questions[peer] >= questionsEach:
		return nil, &refusal.Error{Kind: refusal.TooMany, Msg: fmt.Sprintf("%d questions of node %s are under way here", questionsEach, peer)}
	case question && c.all >= questionsAll:
		return nil, &refusal.Error{Kind: refusal.Busy, Msg: fmt.Sprintf("%d questions of other nodes are under way here", questionsAll)}
	}
	c.calls[peer]++
	if question {
		c.questions[peer]++
		c.all++
	}
	return func() { c.leave(peer, question) }, nil
}

func (c *callers) leave(peer string, question bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	less(c.calls, peer)
	if question {
		less(c.questions, peer)
		c.all--
	}
}

// less counts one less of a key, and forgets it at none.
func less(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// sayEvery is between two lines in the log about one node's being over a limit.
const sayEvery = 10 * time.Second

// say reports whether a line about a node is due.
func (c *callers) say(peer string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.said[peer]) < sayEvery {
		return false
	}
	c.said[peer] = now
	return true
}

// limited refuses calls over a limit before anything is read or looked up for them, and
// gives those that it lets in a time to be read.
func (n *Node) limited(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		peer, _, _ := pki.Node(*r.TLS) // strangers, if there are any, are one
		verb := r.PathValue("verb")
		leave, over := n.callers.enter(peer, verb != string(remote.Do) && verb != string(remote.Receive))
		if over != nil {
			n.opts.standing.refused(whyTooMany)
			if n.callers.say(peer, time.Now()) {
				n.log.Warn("calls of a node refused", "reason", whyTooMany, "peer", r.RemoteAddr, "from", peer, "err", over)
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

// arrives ends the time that a call has to come in: all of it is there.
func arrives(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }

// partReader reads a part. It fails when nothing comes for too long, and when ctx ends.
type partReader struct {
	ctx     context.Context
	r       io.Reader
	control *http.ResponseController
	stall   time.Duration
}

// newPartReader has the end of ctx wake a reader that waits. over is to be called when
// nothing is read any more.
func newPartReader(ctx context.Context, w http.ResponseWriter, r io.Reader, stall time.Duration) (p *partReader, over func()) {
	p = &partReader{ctx, r, http.NewResponseController(w), stall}
	stop := context.AfterFunc(ctx, func() { _ = p.control.SetReadDeadline(time.Now()) })
	return p, func() {
		if stop() {
			arrives(w)
		}
	}
}

func (p *partReader) Read(b []byte) (int, error) {
	if err := p.control.SetReadDeadline(time.Now().Add(p.stall)); err != nil {
		return 0, err
	}
	if p.ctx.Err() != nil { // after the deadline is set, or it would undo the wake
		return 0, context.Cause(p.ctx)
	}
	n, err := p.r.Read(b)
	if err != nil && p.ctx.Err() != nil {
		err = context.Cause(p.ctx)
	}
	return n, err
}
