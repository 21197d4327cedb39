// SPDX-License-Identifier: Apache-2.0

package natsserver

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"weir/internal/core/wire"
)

// A node may publish so much at once and so much each second. A node with 1,000
// containers sends 0.1 MB and one message each second; one that comes back after
// 5 minutes has 60 profiles of half a MB and up to 1,000 reports to send.
const (
	burstBytes    = 64 << 20
	bytesPerSec   = 1 << 20
	burstMessages = 10000
	messagesPerS  = 100
	lookInterval  = 250 * time.Millisecond
	outFor        = 10 * time.Second // of a node that was faster
)

// pace limits how fast each node publishes. The server counts bytes and messages of each
// connection; look compares them with the node's allowance, and keepPace disconnects a
// node that has exceeded it, for outFor.
type pace struct {
	mu    sync.Mutex
	nodes map[string]*allowance
	conns map[uint64]counted // by the server's number of the connection
}

// allowance is the rate limit of one node: two buckets that fill with time.
type allowance struct {
	bytes, messages float64
	at              time.Time
	out             time.Time // until when it is refused
}

// counted says how much a connection has sent so far.
type counted struct{ bytes, messages int64 }

func newPace() *pace { return &pace{nodes: map[string]*allowance{}, conns: map[uint64]counted{}} }

// look counts what connections have sent since the last look, and returns the nodes
// that were too fast.
func (p *pace) look(conns []*server.ConnInfo, now time.Time) (fast []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	present := make(map[uint64]counted, len(conns))
	for _, c := range conns {
		node := c.AuthorizedUser
		if node == "" || node == wire.Manager {
			continue
		}
		is := counted{c.InBytes, c.InMsgs}
		present[c.Cid] = is
		if p.spend(node, is.bytes-p.conns[c.Cid].bytes, is.messages-p.conns[c.Cid].messages, now) {
			fast = append(fast, node)
		}
	}
	p.conns = present
	for node, a := range p.nodes {
		if a.full(now) {
			delete(p.nodes, node)
		}
	}
	return fast
}

// spend reports whether a node has just become too fast.
func (p *pace) spend(node string, bytes, messages int64, now time.Time) bool {
	a := p.nodes[node]
	if a == nil {
		a = &allowance{bytes: burstBytes, messages: burstMessages, at: now}
		p.nodes[node] = a
	}
	since := now.Sub(a.at).Seconds()
	a.at = now
	a.bytes = min(burstBytes, a.bytes+since*bytesPerSec) - float64(bytes)
	a.messages = min(burstMessages, a.messages+since*messagesPerS) - float64(messages)
	if a.bytes >= 0 && a.messages >= 0 || now.Before(a.out) {
		return false
	}
	// What it has taken too much is not held against it for ever: nothing of it was
	// kept beyond its quota.
	a.bytes, a.messages = max(a.bytes, 0), max(a.messages, 0)
	a.out = now.Add(outFor)
	return true
}

func (a *allowance) full(now time.Time) bool {
	since := now.Sub(a.at).Seconds()
	return !now.Before(a.out) && a.bytes+since*bytesPerSec >= burstBytes && a.messages+since*messagesPerS >= burstMessages
}

// admits refuses a node that was too fast.
func (p *pace) admits(node string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.nodes[node]; a != nil && now.Before(a.out) {
		return fmt.Errorf("has published too much: more than %d MB or %d messages at once, or than %d MB or %d messages each second; it is let in again in %v; see its agent's log, or remove it: weir manager remove %s",
			burstBytes>>20, burstMessages, bytesPerSec>>20, messagesPerS, a.out.Sub(now).Round(time.Second), node)
	}
	return nil
}

// keepPace looks until done is closed.
func (s *Server) keepPace(done <-chan struct{}, log *slog.Logger) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		conns, err := s.server.Connz(&server.ConnzOptions{Username: true, Limit: 1 << 20})
		if err != nil {
			log.Warn("connections of the bus cannot be counted", "err", err)
			continue
		}
		for _, node := range s.pace.look(conns.Conns, time.Now()) {
			log.Warn("node cut off the bus: it has published too much", "node", node, "for", outFor,
				"bytes_per_second", bytesPerSec, "messages_per_second", messagesPerS)
			if err := s.expel(node); err != nil {
				log.Warn("node cannot be cut off the bus", "node", node, "err", err)
			}
		}
	}
}
