// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"net"
	"time"
)

// Moves is the cgroup of what a node sends for migrations. Its sockets are the workload
// `migration`, which has a class of its own on each link, so that a move takes no more than that
// class is given. cgroup.Inner is one.
type Moves interface {
	// Do runs f on a thread in the cgroup.
	Do(f func() error) error
}

const (
	dialTimeout = 5 * time.Second
	aliveIdle   = 5 * time.Second
	aliveEvery  = 2 * time.Second
	aliveTimes  = 4
)

// dialForMove connects for a migration: to another node or the manager's registry. Without a
// cgroup, and where the thread cannot enter it, the packets are the host's.
func (n *Node) dialForMove(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: aliveIdle, Interval: aliveEvery, Count: aliveTimes}}
	if n.opts.Moves == nil {
		return d.DialContext(ctx, network, address)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	// A name is looked up here: one address is connected to by the thread that asks for it, and
	// makes the socket.
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, one := range addresses {
		var conn net.Conn
		var refused error
		err := n.opts.Moves.Do(func() error {
			conn, refused = d.DialContext(ctx, network, net.JoinHostPort(one, port))
			return nil
		})
		if err != nil {
			n.log.Warn("packets of a migration are not told apart and count as the host's", "err", err)
			conn, refused = d.DialContext(ctx, network, net.JoinHostPort(one, port))
		}
		if refused == nil {
			return conn, nil
		}
		failed = append(failed, refused)
	}
	return nil, errors.Join(failed...)
}
