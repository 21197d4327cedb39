// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialer connects for a migration: to another node or the manager's registry. Its
// packets belong to the workload `migration`, which has a class of its own on each
// link, so that a move takes no more than that class is given. A link knows them by
// the mark of their sockets.
func (n *Node) dialer(ctx context.Context) *net.Dialer {
	d := &net.Dialer{Timeout: 5 * time.Second, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 4}}
	if n.opts.Mark == nil {
		return d
	}
	mark := n.opts.Mark(ctx)
	if mark == 0 {
		return d
	}
	d.Control = func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(mark)) })
		if err != nil {
			return err
		}
		if failed != nil { // without CAP_NET_ADMIN they are the host's
			n.log.Warn("packets of a migration cannot be marked and count as the host's", "err", failed)
		}
		return nil
	}
	return d
}
