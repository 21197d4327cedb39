// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

var ipv6Ways = []way{
	{name: "an echo with a forged source, by IPv6", kinds: everyKind, end: charged, elsewhere: "TestForgedSourcesOfIPv6", open: byFreebind,
		how: "the same without any capability: a ping socket that is bound to the server's address (IPV6_FREEBIND), of a user whom `net.ipv4.ping_group_range` names, " +
			"as systemd has it name all"},
}

// byFreebind sends echo requests in the server's name to where byEcho does, without any right.
func byFreebind(x *attack) (send, error) {
	if err := syscall.Setuid(65534); err != nil {
		return nil, err
	}
	kernel := x.From.To4()
	if x.Kind == onPort {
		kernel = hostIn(int(kernel[1]) - 88).ip.To4()
	}
	from, to := &unix.SockaddrInet6{Addr: [16]byte(endpoint{ip: x.To}.ipv6())}, &unix.SockaddrInet6{Addr: [16]byte(endpoint{ip: kernel}.ipv6())}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_ICMPV6)
	if err == nil {
		err = firstOf(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1), unix.Bind(fd, from))
	}
	echo := append([]byte{128, 0, 0, 0, 0, 7, 0, 1}, make([]byte, payload)...)
	return func(uint64) error { return unix.Sendto(fd, echo, 0, to) }, err
}

// TestForgedSourcesOfIPv6: the kernel answers echo requests in another's name, and the answers are
// the asking workload's.
func TestForgedSourcesOfIPv6(t *testing.T) {
	b := newWaysBed(t)
	link := <-b.lanes
	bridge, server, host := b.nets[link].bridge, serverAt(link), hostIn(link)
	b.host.addIPv6(bridge, host)
	b.host.knowsIPv6(bridge, server)
	for _, k := range everyKind {
		t.Run(string(k), func(t *testing.T) {
			r := &run{waysBed: b, t: t, way: ipv6Ways[0], link: link}
			r.prepare(k)
			defer r.end()
			r.from.addIPv6(r.attack.Device, endpoint{r.attack.From, r.attack.FromMAC})
			if k != onHost {
				r.from.knowsIPv6(r.attack.Device, server)
				r.from.knowsIPv6(r.attack.Device, host)
			}
			for file, value := range map[string]string{"ipv4/ping_group_range": "0 2147483647", "ipv6/conf/lo/disable_ipv6": "0"} {
				r.from.must(file, r.from.do(func() error { return os.WriteFile("/proc/sys/net/"+file, []byte(value), 0) }))
			}
			r.try()
		})
	}
}
