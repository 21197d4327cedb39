// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/dataplane"
)

// standingQueue sends to an address by UDP for a while, more than a link of 5 Mbit/s carries, in
// packets whose two bits of ECN are `ecn`. The socket's buffer is what waits.
func standingQueue(t *testing.T, to net.IP, ecn int) {
	t.Helper()
	conn, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: to, Port: 9})
	must(t, err)
	defer conn.Close()
	raw, err := conn.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		if to.To4() != nil {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, ecn)
		} else {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, ecn)
		}
	}))
	must(t, err)
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		_, err := conn.Write(make([]byte, 1000))
		must(t, err)
	}
}

// countCE counts the frames with CE that come out of the other end of the link, until stopped.
func countCE(t *testing.T) (stop func() (ce uint64)) {
	t.Helper()
	up1, err := netlink.LinkByName("up1")
	must(t, err)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, unix.ETH_P_ALL<<8)
	must(t, err)
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ALL << 8, Ifindex: up1.Attrs().Index}))
	must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20))
	t.Cleanup(func() { unix.Close(fd) })
	return func() (ce uint64) {
		frame := make([]byte, 2048)
		for {
			n, from, err := unix.Recvfrom(fd, frame, 0)
			if err != nil {
				return ce
			}
			if from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING || n < 20 {
				continue
			}
			switch frame[0] >> 4 {
			case 4:
				if frame[1]&3 == 3 {
					ce++
				}
			case 6:
				if frame[1]>>4&3 == 3 {
					ce++
				}
			}
		}
	}
}

// reach makes an address of IPv6 at the other end of the link known.
func reach(t *testing.T, v6 net.IP) {
	t.Helper()
	up0, err := netlink.LinkByName("up0")
	must(t, err)
	addr, err := netlink.ParseAddr("fd00:9::1/64")
	must(t, err)
	addr.Flags = unix.IFA_F_NODAD
	must(t, netlink.AddrAdd(up0, addr))
	must(t, netlink.NeighSet(&netlink.Neigh{LinkIndex: up0.Attrs().Index, IP: v6,
		HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 2}, State: netlink.NUD_PERMANENT}))
}

// TestPacketsAreMarked: on a real kernel CoDel marks packets that can be marked, of IPv4 and
// IPv6, hashed or in a queue; they leave with CE, as many as are counted. A sender that ignores
// marks loses packets all the same, and one that cannot be marked has no marks.
func TestPacketsAreMarked(t *testing.T) {
	v4, v6 := net.IPv4(10, 9, 0, 2), net.ParseIP("fd00:9::2")
	for _, test := range []struct {
		name       string
		to         net.IP
		ecn        int
		discipline discipline.Name
		marks      bool
	}{
		{"IPv4", v4, 2, discipline.SFQ, true},
		{"IPv6", v6, 2, discipline.SFQ, true},
		{"ECT(1)", v4, 1, discipline.SFQ, true},
		{"a queue", v4, 2, discipline.CBWFQ, true},
		{"not ECT", v4, 0, discipline.SFQ, false},
		{"not ECT, IPv6", v6, 0, discipline.SFQ, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			opts := onLink(t)
			reach(t, v6)
			b := newBackend(t, opts)
			state := marking(test.discipline)
			must(t, b.Set(context.Background(), state))
			received := countCE(t)
			standingQueue(t, test.to, test.ecn)
			var c dataplane.Counters
			for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
				snap, err := b.Counters()
				must(t, err)
				if c = snap.Classes[0]; c.BacklogPackets == 0 {
					break
				}
			}
			if (c.Marked > 0) != test.marks || c.Drops["aqm"] == 0 {
				t.Errorf("%d marked, %d dropped by CoDel", c.Marked, c.Drops["aqm"])
			}
			// A marked packet may still be dropped; what has left with CE is the rest.
			if ce := received(); ce > c.Marked || test.marks && ce < c.Marked*9/10 {
				t.Errorf("%d packets left with CE, %d are counted", ce, c.Marked)
			}
			t.Logf("%d marked, drops %v, of %d packets", c.Marked, c.Drops, c.EnqueuedPackets)
			must(t, b.Cleanup(context.Background()))
		})
	}
}

// marking is a link of 5 Mbit/s whose host asks for ECN in a discipline.
func marking(name discipline.Name) plan.State {
	host := plan.Class{ID: 0, Name: "host", Weight: 1, Discipline: name,
		AQM: plan.AQM{Target: 5 * time.Millisecond, Interval: 100 * time.Millisecond, ECN: true}}
	if name.HasQueues() {
		host.Queues = []plan.Queue{{Name: "all"}}
	}
	return plan.State{Link: plan.Link{Device: "up0", Capacity: 5e6, Reserve: 1, Scheduler: plan.SchedulerFair}, Classes: []plan.Class{host}}
}

// TestPacketsPassTheMarkerWhereAsked: the program that marks is at the link while a class asks
// for ECN, for a second agent too, and one that another program takes away is missed and set again.
func TestPacketsPassTheMarkerWhereAsked(t *testing.T) {
	opts := onLink(t)
	b := newBackend(t, opts)
	with, without := marking(discipline.SFQ), marking(discipline.SFQ)
	without.Classes[0].AQM.ECN = false
	expect := func(when string, b *Backend, programs int, missing bool) {
		t.Helper()
		if got := egressPrograms(t, b.dev); got != programs {
			t.Errorf("%s: %d programs at the link, want %d", when, got, programs)
		}
		gone, err := b.Missing()
		must(t, err)
		if (len(gone) > 0) != missing {
			t.Errorf("%s: missing %v", when, gone)
		}
	}
	for _, step := range []struct {
		when     string
		state    plan.State
		programs int
	}{{"not asked for", without, 0}, {"asked for", with, 1}, {"asked for again", with, 1}, {"no more", without, 0}, {"again", with, 1}} {
		must(t, b.Set(context.Background(), step.state))
		expect(step.when, b, step.programs, false)
	}
	dir, err := b.pins()
	must(t, err)
	l, err := link.LoadPinnedLink(filepath.Join(dir, cePin), nil)
	must(t, err)
	must(t, l.Detach())
	must(t, l.Close())
	expect("taken away", b, 0, true)
	must(t, b.Set(context.Background(), with))
	expect("set again", b, 1, false)
	must(t, b.Close())
	second := newBackend(t, opts)
	must(t, second.Set(context.Background(), with))
	expect("a second agent", second, 1, false)
	must(t, second.Cleanup(context.Background()))
	if got := egressPrograms(t, second.dev); got != 0 {
		t.Errorf("after the cleanup: %d programs at the link", got)
	}
	if left, err := os.ReadDir(opts.BPFFS); err == nil && len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
