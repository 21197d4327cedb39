// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// unsure is how long what was read of the host's devices holds without a notice of a change.
const unsure = time.Minute

// changes is whether devices or addresses of the host have changed since they were read.
type changes struct {
	socket *nl.NetlinkSocket // nil = the kernel gives no notice
	since  atomic.Bool
}

func newChanges() *changes {
	c := &changes{}
	c.socket, _ = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NSID, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	c.since.Store(true)
	return c
}

// follow takes notices until ctx ends.
func (c *changes) follow(ctx context.Context) {
	if c.socket == nil {
		return
	}
	stop := context.AfterFunc(ctx, c.socket.Close)
	defer stop()
	for ctx.Err() == nil {
		_, _, err := c.socket.Receive()
		c.since.Store(true)
		if err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return // the look that is due every minute finds what there is
		}
	}
}
