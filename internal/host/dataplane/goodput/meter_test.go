// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/base/nsthread"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/device/netnstest"
)

// bed is a host with one workload behind a veth, and a network beyond it:
//
//	box (10.0.0.2) eth0 ── v0 host w0 ── far0 far (10.1.0.2)
type bed struct {
	t              *testing.T
	host, box, far *netnstest.Netns
	port           plan.Port
	meter          *Meter
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t}
	b.host = netnstest.Enter(t)
	b.box, b.far = netnstest.New(t), netnstest.New(t)
	b.host.Run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "eth0", "netns", b.box.Name)
	b.host.Run("ip", "link", "add", "w0", "type", "veth", "peer", "name", "far0", "netns", b.far.Name)
	b.host.Run("ip", "addr", "add", "10.0.0.1/24", "dev", "v0")
	b.host.Run("ip", "addr", "add", "10.1.0.1/24", "dev", "w0")
	b.host.Run("ip", "-6", "addr", "add", "fd00::1/64", "dev", "v0", "nodad")
	b.host.Run("ip", "-6", "addr", "add", "fd01::1/64", "dev", "w0", "nodad")
	for _, dev := range []string{"v0", "w0"} {
		b.host.Run("ip", "link", "set", dev, "up")
	}
	b.host.Run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding")
	for _, end := range []struct {
		at       *netnstest.Netns
		dev, net string
	}{{b.box, "eth0", "0"}, {b.far, "far0", "1"}} {
		end.at.Run("ip", "addr", "add", "10."+end.net+".0.2/24", "dev", end.dev)
		end.at.Run("ip", "-6", "addr", "add", "fd0"+end.net+"::2/64", "dev", end.dev, "nodad")
		end.at.Run("ip", "link", "set", end.dev, "up")
		end.at.Run("ip", "route", "add", "default", "via", "10."+end.net+".0.1")
		end.at.Run("ip", "-6", "route", "add", "default", "via", "fd0"+end.net+"::1")
	}
	conn, err := device.Open()
	if err != nil {
		t.Fatal(err)
	}
	v0, err := conn.Lookup("v0")
	if err != nil {
		t.Fatal(err)
	}
	b.port = plan.Port{Device: "v0", Ifindex: v0.Index, Class: 3}
	b.meter, err = New(plan.Carrier{})
	if errors.Is(err, dataplane.ErrNoSupport) {
		t.Skip("skipped:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.meter.Close() })
	return b
}

func (b *bed) watch(ifbs ...int) {
	b.t.Helper()
	if err := b.meter.Watch([]plan.Port{b.port}, ifbs); err != nil {
		if errors.Is(err, dataplane.ErrNoSupport) {
			b.t.Skip("skipped:", err)
		}
		b.t.Fatal(err)
	}
}

func (b *bed) read() Reading {
	b.t.Helper()
	all, err := b.meter.Read()
	if err != nil {
		b.t.Fatal(err)
	}
	return all[b.port.Class]
}

// inside calls f on a thread of the namespace.
func inside(t *testing.T, n *netnstest.Netns, f func() error) {
	t.Helper()
	if err := nsthread.InPath(n.Path(), f); err != nil {
		t.Fatal(err)
	}
}

// transfer sends n bytes by TCP from one end to the other.
func (b *bed) transfer(from, to *netnstest.Netns, address string, n int) {
	b.t.Helper()
	var ln net.Listener
	inside(b.t, to, func() (err error) { ln, err = net.Listen("tcp", net.JoinHostPort(address, "0")); return err })
	defer ln.Close()
	got := make(chan int64)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			got <- -1
			return
		}
		m, _ := io.Copy(io.Discard, c) // the count tells
		c.Close()
		got <- m
	}()
	var c net.Conn
	inside(b.t, from, func() (err error) { c, err = net.Dial("tcp", ln.Addr().String()); return err })
	if _, err := c.Write(make([]byte, n)); err != nil {
		b.t.Fatal(err)
	}
	c.Close()
	select {
	case m := <-got:
		if m != int64(n) {
			b.t.Fatalf("%d of %d bytes arrived", m, n)
		}
	case <-time.After(30 * time.Second):
		b.t.Fatal("the transfer takes too long")
	}
}

// resent is how many segments the workload's TCP has sent again.
func (b *bed) resent() uint64 {
	b.t.Helper()
	out, err := exec.Command("ip", "netns", "exec", b.box.Name, "cat", "/proc/net/snmp").Output()
	if err != nil {
		b.t.Fatal(err)
	}
	lines := strings.Split(string(out), "\n")
	for i, line := range lines[:len(lines)-1] {
		if names, values := strings.Fields(line), strings.Fields(lines[i+1]); len(names) > 1 && names[0] == "Tcp:" {
			n, err := strconv.ParseUint(values[slices.Index(names, "RetransSegs")], 10, 64)
			if err != nil {
				b.t.Fatal(err)
			}
			return n
		}
	}
	b.t.Fatal("no count of retransmissions")
	return 0
}

// near is the number of payload bytes give or take a FIN and a segment or two.
func near(got, want uint64) bool { return got+4000 >= want && got <= want+4000 }

// TestTCP: payload counts once, in either direction and either family, whatever is
// lost on the way.
func TestTCP(t *testing.T) {
	const size = 3 << 20
	for _, tt := range []struct {
		name, family string
		loss         bool
	}{{"IPv4", "10.%d.0.2", false}, {"IPv6", "fd0%d::2", false}, {"IPv4, lossy", "10.%d.0.2", true}} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t)
			if tt.loss {
				// One packet a segment, 2,200 of them: of 48 large ones often none
				// is lost.
				b.box.Run("ip", "link", "set", "eth0", "gso_max_segs", "1")
				if out, err := exec.Command("tc", "qdisc", "add", "dev", "w0", "root", "netem", "loss", "2%", "limit", "10000").CombinedOutput(); err != nil {
					t.Skipf("skipped: no netem here: %s", out)
				}
			}
			b.watch()
			b.transfer(b.box, b.far, fmt.Sprintf(tt.family, 1), size)
			up := b.read()
			if !near(up.Sent, size) || !near(up.Acked, size) || up.Received > 100 || up.Datagrams > 5000 {
				t.Errorf("upload of %d: %+v", size, up.Counts)
			}
			// The sender's own count is of segments, which are at most 1,448 bytes
			// here, and SYNs among them. What one CPU has overtaken of another's counts
			// too: up to 64 kB at a time, a few times at most.
			const overtaken = 4 << 16
			segments := b.resent()
			if up.Again > 1448*segments+overtaken || tt.loss && (segments == 0 || up.Again < 1000*segments) {
				t.Errorf("retransmitted: %d bytes, %d segments", up.Again, segments)
			}
			if up.Queues[0].Acked != up.Acked {
				t.Errorf("queues: %+v", up.Queues)
			}
			b.transfer(b.far, b.box, fmt.Sprintf(tt.family, 0), size)
			down := b.read()
			if !near(down.Received, size) || !near(down.Acked, size) {
				t.Errorf("download of %d: %+v", size, down.Counts)
			}
			flows, err := b.meter.Flows(b.port.Class)
			if err != nil || len(flows) != 2 || flows[0].Protocol != "tcp" || !near(flows[0].Received+flows[0].Acked, size) || !strings.HasSuffix(flows[0].Local.Addr().String(), "2") {
				t.Errorf("flows %+v, %v", flows, err)
			}
		})
	}
}

// TestUDP: payload without headers.
func TestUDP(t *testing.T) {
	b := newBed(t)
	b.watch()
	before := b.read()
	inside(t, b.box, func() error {
		c, err := net.Dial("udp", "10.1.0.2:9")
		if err != nil {
			return err
		}
		defer c.Close()
		for range 100 {
			if _, err := c.Write(make([]byte, 500)); err != nil && !strings.Contains(err.Error(), "refused") {
				return err
			}
		}
		return nil
	})
	flows, err := b.meter.Flows(b.port.Class)
	if err != nil || len(flows) != 1 || flows[0].Protocol != "udp" || flows[0].Remote.Port() != 9 || flows[0].Datagrams < 45000 || flows[0].Delivered() > 50000 {
		t.Errorf("flows %+v, %v", flows, err)
	}
	// What was refused comes back as ICMP: "all else", in the other direction.
	if got := b.read().Datagrams - before.Datagrams; got < 45000 || got > 50500 {
		t.Errorf("of at most 50,000 bytes %d are counted", got)
	}
}

// TestSteeredIngress: what has not been behind the IFB does not count as received.
func TestSteeredIngress(t *testing.T) {
	b := newBed(t)
	b.watch(4711)
	b.transfer(b.far, b.box, "10.0.0.2", 1<<20)
	if r := b.read(); r.Received != 0 || r.Sent > 100 {
		t.Errorf("%+v", r.Counts)
	}
	b.watch()
	b.transfer(b.far, b.box, "10.0.0.2", 1<<20)
	if r := b.read(); !near(r.Received, 1<<20) {
		t.Errorf("not steered: %+v", r.Counts)
	}
}

// TestWatchFollows: ports come and go, and a program is there only while there is
// a watcher.
func TestWatchFollows(t *testing.T) {
	b := newBed(t)
	b.watch()
	b.watch()
	if n := b.meter.Watches(); n != 1 {
		t.Errorf("watches %d ports", n)
	}
	gone := plan.Port{Device: "gone", Ifindex: 99999, Class: 4}
	if err := b.meter.Watch([]plan.Port{b.port, gone}, nil); err != nil {
		t.Errorf("a port that went away: %v", err)
	}
	b.transfer(b.box, b.far, "10.1.0.2", 1<<20)
	b.port.Class = 7
	b.watch()
	if r := b.read(); r.Sent != 0 {
		t.Errorf("the new class begins with %+v", r.Counts)
	}
	b.transfer(b.box, b.far, "10.1.0.2", 1<<20)
	if r := b.read(); !near(r.Sent, 1<<20) {
		t.Errorf("the new class has %+v", r.Counts)
	}
	if err := b.meter.Watch(nil, nil); err != nil || b.meter.Watches() != 0 {
		t.Errorf("%v, still at %d ports", err, b.meter.Watches())
	}
}
