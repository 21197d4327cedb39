// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// unsure is how long what was read of the host's devices holds without a notice of a change.
const unsure = time.Minute

// groups are the notices: of devices, numbers of namespaces, and addresses.
var groups = []int{unix.RTNLGRP_LINK, unix.RTNLGRP_NSID, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR}

// changes is what has changed since it was taken last: on the host, and in the namespaces that have a
// number here, as those have that a pair leads into. One socket hears of all of them.
type changes struct {
	file *os.File // nil = the kernel gives no notice
	told bool     // it gives notice of other namespaces, too

	mu   sync.Mutex
	news news
}

// news are the namespaces in which devices or addresses have changed.
type news struct {
	here   bool
	inside map[int]bool // by number
	lost   bool         // in any of them
}

func newChanges() *changes {
	c := &changes{news: news{here: true}}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return c
	}
	if unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		unix.Close(fd)
		return c
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<20) // else an overflow is less rare
	for _, group := range groups {
		if unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group) != nil {
			unix.Close(fd)
			return c
		}
	}
	c.told = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_LISTEN_ALL_NSID, 1) == nil // needs CAP_NET_BROADCAST
	c.file = os.NewFile(uintptr(fd), "netlink")
	return c
}

// take returns the news.
func (c *changes) take() (n news) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, c.news = c.news, news{}
	return n
}

// again has anything count as changed: what there is could not be read.
func (c *changes) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.news.here, c.news.lost = true, true
}

// follow takes notices until ctx ends.
func (c *changes) follow(ctx context.Context) {
	if c.file == nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = c.file.Close() })()
	raw, err := c.file.SyscallConn()
	if err != nil {
		return
	}
	// What a notice says is read anew: its beginning is enough.
	body, control := make([]byte, 16), make([]byte, unix.CmsgSpace(4))
	for {
		var n int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			_, n, _, _, failed = unix.Recvmsg(int(fd), body, control, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err != nil {
			return // it is closed
		}
		c.note(control[:n], failed)
	}
}

// note takes one notice. Where notices were lost, or something else failed, anything may have changed.
func (c *changes) note(control []byte, failed error) {
	nsid := noNsid
	if messages, err := unix.ParseSocketControlMessage(control); err == nil {
		for _, m := range messages {
			if m.Header.Level == unix.SOL_NETLINK && m.Header.Type == unix.NETLINK_LISTEN_ALL_NSID && len(m.Data) >= 4 {
				nsid = int(int32(binary.NativeEndian.Uint32(m.Data)))
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case failed != nil:
		c.news.here, c.news.lost = true, true
	case nsid == noNsid:
		c.news.here = true
	default:
		if c.news.inside == nil {
			c.news.inside = map[int]bool{}
		}
		c.news.inside[nsid] = true
	}
}
