// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Whom a process lets send to a group that a socket of its is in, the kernel reports to routers, by
// packets of its own. They need no capability, and have no socket of the process.
const reports = "who may send to groups of a socket changes all the time, by MCAST_MSFILTER, which the kernel reports to routers (MLD, IGMP)"

var multicastWays = []way{
	{name: "multicast filters", kinds: []kind{onPort}, how: reports, end: charged, elsewhere: "TestMulticastReports", open: byFilters},
	{name: "multicast filters without a port", kinds: withoutPort, how: reports + "; more than 500 times at once, or five a second", end: impossible, elsewhere: "TestMulticastReports", open: once(byFilters)},
}

// once sends once before it is ready.
func once(open func(*attack) (send, error)) func(*attack) (send, error) {
	return func(x *attack) (send, error) {
		s, err := open(x)
		if err == nil {
			err = s(0)
		}
		return s, err
	}
}

const (
	filterGroups  = 800 // of one process
	filterSources = 64  // net.ipv6.mld_max_msf
	mcastJoin     = 42  // MCAST_JOIN_GROUP of linux/in.h
	mcastFilter   = 48  // MCAST_MSFILTER
	filterAllow   = 1   // MCAST_INCLUDE

	// The kernel reports at a random time within a second, which each change draws anew.
	filterPause = 1100 * time.Millisecond
)

// storage returns an IPv6 address as struct sockaddr_storage.
func storage(ip net.IP) []byte {
	s := binary.NativeEndian.AppendUint16(nil, unix.AF_INET6)
	return append(append(append(s, make([]byte, 6)...), ip.To16()...), make([]byte, 104)...)
}

// byFilters changes the filter of each group to sources that it did not have, and waits for the
// report.
func byFilters(x *attack) (send, error) {
	device, err := net.InterfaceByName(x.Device)
	if err != nil {
		return nil, err
	}
	var sockets []int
	group := func(i int) net.IP { return append(net.IP{0xff, 0x0e, 13: 1}[:14], byte(i>>8), byte(i)) }
	head := binary.NativeEndian.AppendUint64(nil, uint64(device.Index))
	for i := range filterGroups {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.SetsockoptString(fd, unix.IPPROTO_IPV6, mcastJoin, string(append(head, storage(group(i))...)))
		}
		if err != nil {
			return nil, fmt.Errorf("join a group: %w", err)
		}
		sockets = append(sockets, fd)
	}
	filter := func(i, turn int) string {
		f := append(append([]byte(nil), head...), storage(group(i))...)
		f = binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(f, filterAllow), filterSources)
		for n := range filterSources {
			f = append(f, storage(net.IP{0x20, 1, 14: byte(turn), 15: byte(n)})...)
		}
		return string(f)
	}
	return func(n uint64) error {
		for i, fd := range sockets {
			if err := unix.SetsockoptString(fd, unix.IPPROTO_IPV6, mcastFilter, filter(i, int(n%2))); err != nil {
				return err
			}
		}
		<-time.After(filterPause)
		return nil
	}, nil
}

// TestMulticastReports: without a bridge that looks into them, as where the link is a network card
// that the workload shares, reports of multicast filters are charged to the port that they come by.
// Where they would be the kernel's own, the filters cannot be changed as often.
func TestMulticastReports(t *testing.T) {
	b := newWaysBed(t)
	link := <-b.lanes
	b.host.run(fmt.Sprintf("ip link set %s type bridge mcast_snooping 0", b.nets[link].bridge))
	for _, w := range multicastWays {
		for _, k := range w.kinds {
			t.Run(fmt.Sprintf("%s/%s", w.name, k), func(t *testing.T) {
				r := &run{waysBed: b, t: t, way: w, link: link}
				r.prepare(k)
				defer r.end()
				r.from.addIPv6(r.attack.Device, endpoint{r.attack.From, r.attack.FromMAC})
				r.try()
			})
		}
	}
}
