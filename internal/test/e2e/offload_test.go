// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane/device"
)

// Workloads of a slow link talk to each other as fast as without Weir, in packets of the size that
// they had. What leaves by the link is in packets that the link carries in a moment.
func TestLocalTrafficIsUntouched(t *testing.T) {
	b := newBed(t, 2, 1)
	b.configure("")
	before := b.traces()
	// What else the machine does only makes a rate smaller: the best of some counts, and
	// without Weir what is less of before and after.
	within := func(enough float64, rounds int) (best float64) {
		for i := 0; i < rounds && best < enough; i++ {
			best = max(best, b.talk(b.boxes[0], b.boxes[1], workloadAt(0, 2).ip, 300*time.Millisecond))
		}
		return best
	}
	const all = 1e9
	without := within(all, 4)
	a := b.start()
	b.steered(a)
	with := within(0.95*without, 20)

	over := int(device.SplitOver(b.capacity))
	short := func(what string) {
		t.Helper()
		most := 0
		b.sniff(func() { b.talk(b.boxes[0], b.srv, serverAt(0).ip, time.Second) }, func(n int) { most = max(most, n) })
		t.Logf("%s: of packets by the link the longest has %d bytes", what, most)
		if most == 0 || most > over {
			t.Errorf("%s: a packet of %d bytes left by the link, want at most %d", what, most, over)
		}
	}
	short("with Weir")
	b.host.run("ip link del weir-gso")
	took := await(t, 5*time.Second, "weir-gso comes back", func() error {
		_, err := b.host.LinkByName("weir-gso")
		return err
	})
	t.Logf("weir-gso comes back after %.1f s", took.Seconds())
	short("after weir-gso was removed")
	for _, box := range b.boxes {
		if now := box.gso("eth0"); now < 65536 {
			t.Errorf("gso_max_size of %s is %d", box.name, now)
		}
	}
	a.kill()
	b.weir("cleanup", "--config", b.configFile())
	b.asBefore("cleanup", before)
	without = min(without, within(without, 4))
	t.Logf("from w1 to w2 %.2f Gbit/s, %.2f with Weir", without, with)
	if with < 0.75*without { // 95 % where nothing else takes the CPU
		t.Errorf("from w1 to w2 %.2f Gbit/s with Weir, %.2f without", with, without)
	}
}

// gso returns the size limit of offloaded packets on a device.
func (s *space) gso(device string) uint32 { return s.device(device).Attrs().GSOMaxSize }

// A workload with a reservation has the size of its offloaded packets limited, no other has. It
// gets the former size back with the end of the reservation, and what an agent has limited that was
// killed is given back by the next one that does not want it.
func TestOffloadOfReservations(t *testing.T) {
	b := newBed(t, 2, 1)
	b.configure("")
	a := b.start()
	b.steered(a)
	former := b.boxes[0].gso("eth0")
	is := func(what string, limited bool) {
		t.Helper()
		await(t, 5*time.Second, what, func() error {
			if now := b.boxes[0].gso("eth0"); limited != (now < former) || !limited && now != former {
				return fmt.Errorf("gso_max_size is %d, was %d", now, former)
			}
			return nil
		})
		if now := b.boxes[1].gso("eth0"); now != former {
			t.Errorf("%s: gso_max_size of another workload is %d", what, now)
		}
	}
	is("no reservation", false)
	b.reserve("w1", b.capacity/4)
	is("with one", true)
	b.weir("set", "w1", "--reserve", "none")
	is("not any more", false)
	b.reserve("w1", b.capacity/4)
	a.kill()
	is("without an agent", true)
	a = b.start()
	b.steered(a)
	is("the next agent", true)
	a.kill()
	b.srv.must("forget the reservation", os.Remove(filepath.Join(b.stateDir(), "state.json")))
	a = b.start()
	b.steered(a)
	is("the next agent, which knows of no reservation", false)
}

// Where the devices that split packets cannot be had, here since their name is taken, the link is
// steered and weir status --gaps says what is not held.
func TestUnsplitPacketsAreSaid(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("")
	b.host.run("ip link add weir-gso type bridge")
	before := b.traces()
	a := b.start()
	b.steered(a)
	await(t, 5*time.Second, "weir status --gaps says it", func() error {
		if text := b.weir("status", "--gaps"); !strings.Contains(text, "Packets of segmentation offload stay whole") {
			return errors.New(text)
		}
		return nil
	})
	a.kill()
	b.weir("cleanup", "--config", b.configFile())
	b.asBefore("cleanup", before)
}

// talk sends by TCP from one namespace to another and returns the Gbit/s that arrive.
func (b *bed) talk(from, to *space, ip net.IP, span time.Duration) float64 {
	b.t.Helper()
	var listener net.Listener
	var conn net.Conn
	to.must("listen", to.do(func() (err error) {
		listener, err = net.Listen("tcp4", ip.String()+":0")
		return err
	}))
	defer listener.Close()
	from.must("connect", from.do(func() (err error) {
		conn, err = net.DialTimeout("tcp4", listener.Addr().String(), 5*time.Second)
		return err
	}))
	accepted, err := listener.Accept()
	to.must("accept", err)
	arrived := make(chan int64, 1)
	go func() {
		n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{accepted}, make([]byte, 1<<18))
		accepted.Close()
		arrived <- n
	}()
	begun := time.Now()
	_ = conn.SetDeadline(begun.Add(span))
	for chunk := make([]byte, 1<<18); err == nil; {
		_, err = conn.Write(chunk)
	}
	_ = conn.(*net.TCPConn).SetLinger(0) // what waits is of no use
	conn.Close()
	return float64(<-arrived) * 8 / 1e9 / time.Since(begun).Seconds()
}

// sniff tells the length of each packet over IPv4 that comes to the server while something is sent.
func (b *bed) sniff(send func(), see func(length int)) {
	b.t.Helper()
	const ip = unix.ETH_P_IP>>8 | unix.ETH_P_IP<<8&0xff00
	fd := -1
	b.srv.must("sniff", b.srv.do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	defer unix.Close(fd)
	b.srv.must("sniff", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 300_000}))
	b.srv.must("sniff", unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ip, Ifindex: b.srv.device("eth0").Attrs().Index}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		send()
	}()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		if n, from, err := unix.Recvfrom(fd, make([]byte, 64), unix.MSG_TRUNC); err == nil && incoming(from) {
			see(n)
		}
	}
}

// incoming reports whether a packet came by the device.
func incoming(from unix.Sockaddr) bool {
	at, ok := from.(*unix.SockaddrLinklayer)
	return ok && at.Pkttype != unix.PACKET_OUTGOING
}
