// SPDX-License-Identifier: Apache-2.0

// Package announce tells a network where a container's addresses are after a move. Switches
// have learned the container's MAC address at its former node's port, and its neighbours keep
// a MAC address for its IP address; a server that waits to be asked would correct neither for
// up to a minute.
//
//	err := announce.Addresses(4711, 812) // of the container whose first process is 4711
//
// For IPv4 it sends gratuitous ARP requests and replies (RFC 5227, 3), for IPv6 unsolicited
// neighbour advertisements (RFC 4861, 7.2.6), from each device of the namespace that speaks
// Ethernet and is up: at once, and twice more within a second, since frames get lost.
//
// What it does not do: tell hosts behind a router, whose way does not change; overlay networks
// whose members learn addresses from their engine, not from frames.
package announce

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
)

// again has the pauses before the second and the third time.
var again = []time.Duration{200 * time.Millisecond, 700 * time.Millisecond}

// sender sends frames from one device of a namespace.
type sender struct {
	socket int
	index  int
	frames []frame
}

// Addresses announces the addresses in the network namespace of a container, whose first
// process is init. It does nothing for a container that has the namespace of host, a process of
// the engine's: those addresses have not moved. It returns when it has announced them once.
func Addresses(init, host int) error {
	netns := fmt.Sprintf("/proc/%d/ns/net", init)
	own, err := os.Readlink(netns)
	if err != nil {
		return fmt.Errorf("announce addresses: %w", err)
	}
	if hosts, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", host)); err == nil && hosts == own {
		return nil
	}
	var senders []sender
	err = nsthread.InPath(netns, func() (err error) {
		senders, err = open()
		return err
	})
	for _, s := range senders {
		err = errors.Join(err, s.send())
	}
	if err != nil {
		err = fmt.Errorf("announce the addresses in %s: %w", netns, err)
	}
	go func() {
		for _, pause := range again {
			time.Sleep(pause)
			for _, s := range senders {
				_ = s.send() // the container may have ended meanwhile
			}
		}
		for _, s := range senders {
			_ = unix.Close(s.socket)
		}
	}()
	return err
}

// open returns a sender for each device of this thread's namespace that has something to say.
func open() (list []sender, err error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		a := l.Attrs()
		if a.RawFlags&unix.IFF_UP == 0 || a.RawFlags&(unix.IFF_LOOPBACK|unix.IFF_NOARP) != 0 || len(a.HardwareAddr) != macBytes {
			continue
		}
		addresses, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return list, err
		}
		s := sender{index: a.Index}
		for _, address := range addresses {
			if address.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) == 0 {
				s.frames = append(s.frames, frames(a.HardwareAddr, address.IP)...)
			}
		}
		if len(s.frames) == 0 {
			continue
		}
		// Protocol 0: nothing is received.
		if s.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return list, fmt.Errorf("a packet socket: %w", err)
		}
		list = append(list, s)
	}
	return list, nil
}

func (s sender) send() (err error) {
	for _, f := range s.frames {
		err = errors.Join(err, unix.Sendto(s.socket, f, 0, &unix.SockaddrLinklayer{Ifindex: s.index}))
	}
	return err
}

// frames returns what announces an address at a MAC address.
func frames(mac net.HardwareAddr, ip net.IP) []frame {
	if v4 := ip.To4(); v4 != nil {
		return []frame{arp(mac, v4, arpRequest), arp(mac, v4, arpReply)}
	}
	return []frame{advertisement(mac, ip)}
}
