// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/core/policy/discipline"
)

// payloads returns the first bytes after the headers of UDP of what comes out of the link, in
// order, until nothing comes for a second. Later fragments have no such headers and are left out.
func payloads(t *testing.T) func() []byte {
	t.Helper()
	up1, err := netlink.LinkByName("up1")
	must(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, unix.ETH_P_ALL<<8)
	must(t, err)
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ALL << 8, Ifindex: up1.Attrs().Index}))
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}))
	t.Cleanup(func() { unix.Close(fd) })
	return func() (list []byte) {
		frame := make([]byte, 2048)
		for {
			n, from, err := unix.Recvfrom(fd, frame, 0)
			if err != nil {
				return list
			}
			if from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING || n < 100 {
				continue
			}
			switch {
			case frame[0]>>4 == 4 && frame[6]&0x1f == 0 && frame[7] == 0 && frame[9] == unix.IPPROTO_UDP:
				list = append(list, frame[28])
			case frame[0]>>4 == 6 && frame[6] == unix.IPPROTO_UDP:
				list = append(list, frame[48])
			case frame[0]>>4 == 6 && frame[6] == unix.IPPROTO_FRAGMENT && frame[42] == 0 && frame[43]&0xf8 == 0:
				list = append(list, frame[56])
			}
		}
	}
}

// TestPacketsOfFlowsAreToldApart: on a real kernel, packets of UDP, whose hash the qdisc makes
// itself, are sorted by their ports: the only packets of seven flows pass one that has filled its
// queue, of IPv4 and of IPv6. Datagrams in fragments, which get the kernel's hash, arrive as well.
func TestPacketsOfFlowsAreToldApart(t *testing.T) {
	const backlog, sparse, bulk = 60, 7, 100
	for name, to := range map[string]net.IP{"IPv4": net.IPv4(10, 9, 0, 2), "IPv6": net.ParseIP("fd00:9::2")} {
		t.Run(name, func(t *testing.T) {
			opts := onLink(t)
			reach(t, net.ParseIP("fd00:9::2"))
			b := newBackend(t, opts)
			state := marking(discipline.SFQ)
			state.Classes[0].AQM.ECN = false
			state.Classes[0].AQM.Target = time.Second // nothing is dropped
			must(t, b.Set(context.Background(), state))
			received := payloads(t)
			flow := func(first byte, packets, length int) {
				conn, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: to, Port: 9})
				must(t, err)
				defer conn.Close()
				payload := make([]byte, length)
				payload[0] = first
				for range packets {
					_, err := conn.Write(payload)
					must(t, err)
				}
			}
			flow(bulk, backlog, 1000)
			for i := range sparse {
				flow(byte(i+1), 1, 500)
			}
			flow(bulk+1, 2, 3000)
			got := received()
			early, seen := 0, map[byte]int{}
			for _, first := range got {
				seen[first]++
				if first <= sparse && seen[bulk] < backlog/2 {
					early++
				}
			}
			if early < sparse-1 { // two flows of 1,024 may meet
				t.Errorf("%d of %d flows passed the one that had filled its queue: %d", early, sparse, got)
			}
			if seen[bulk] != backlog || seen[bulk+1] != 2 {
				t.Errorf("%d of %d packets and %d of 2 datagrams in fragments arrived", seen[bulk], backlog, seen[bulk+1])
			}
			must(t, b.Cleanup(context.Background()))
		})
	}
}
