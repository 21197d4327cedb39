// SPDX-License-Identifier: Apache-2.0

package look

import (
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// unsure is how long what was read of the host's devices holds without a notice of a change.
const unsure = time.Minute

// groups are the notices: of devices, numbers of namespaces, and addresses.
var groups = []int{unix.RTNLGRP_LINK, unix.RTNLGRP_NSID, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR}

// atMost is how many notices are read at a look. A container may change its own devices without
// end.
const atMost = 4096

// changes is what has changed since it was taken last: on the host, and in the namespaces that have
// a number here, as those have that a pair leads into. One socket hears of all of them. It is read
// at each look, so that the price of a flood of notices is a look's: its buffer, and no more.
type changes struct {
	fd     int  // -1 = the kernel gives no notice
	told   bool // it gives notice of other namespaces, too
	unread bool // what was taken could not be made use of
}

// news are the namespaces in which devices or addresses have changed.
type news struct {
	here   bool
	inside map[int]bool // by number
	lost   bool         // in any of them
}

func newChanges() *changes {
	c := &changes{fd: -1, unread: true}
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
	c.fd = fd
	return c
}

// close ends the notices.
func (c *changes) close() {
	if c.fd >= 0 {
		unix.Close(c.fd)
	}
}

// take returns the news. What a notice says is read anew: its beginning is enough.
func (c *changes) take() news {
	n := news{here: c.unread, lost: c.unread, inside: map[int]bool{}}
	c.unread = false
	if c.fd < 0 {
		return n
	}
	body, control := make([]byte, 16), make([]byte, unix.CmsgSpace(4))
	for range atMost {
		_, length, _, _, err := unix.Recvmsg(c.fd, body, control, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			return n
		}
		n.note(control[:length], err)
	}
	n.here, n.lost = true, true
	return n
}

// note takes one notice. Where notices were lost, or something else failed, anything may have
// changed.
func (n *news) note(control []byte, failed error) {
	nsid := noNsid
	if messages, err := unix.ParseSocketControlMessage(control); err == nil {
		for _, m := range messages {
			if m.Header.Level == unix.SOL_NETLINK && m.Header.Type == unix.NETLINK_LISTEN_ALL_NSID && len(m.Data) >= 4 {
				nsid = int(int32(binary.NativeEndian.Uint32(m.Data)))
			}
		}
	}
	switch {
	case failed != nil:
		n.here, n.lost = true, true
	case nsid == noNsid:
		n.here = true
	default:
		n.inside[nsid] = true
	}
}
