// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/lab/meter"
)

// departing has a workload's socket whose packets carry times of departure, and the server's.
type departing struct {
	*bed
	from, to int
}

// departs opens both. The clock is the one that the times are of.
func (b *bed) departs(clock int) *departing {
	b.t.Helper()
	open := func(s *space, own *unix.SockaddrInet4) (fd int) {
		s.must("socket", s.do(func() (err error) {
			if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
				err = unix.Bind(fd, own)
			}
			return err
		}))
		b.t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	d := &departing{bed: b}
	d.to = open(b.srv, &unix.SockaddrInet4{})
	d.from = open(b.boxes[0], &unix.SockaddrInet4{})
	at, err := unix.Getsockname(d.to)
	b.srv.must("port", err)
	b.boxes[0].must("connect", b.boxes[0].do(func() error {
		return unix.Connect(d.from, &unix.SockaddrInet4{Addr: [4]byte(serverAt(0).ip.To4()), Port: at.(*unix.SockaddrInet4).Port})
	}))
	txtime := string(binary.NativeEndian.AppendUint64(nil, uint64(clock))) // struct sock_txtime: no flags
	b.boxes[0].must("SO_TXTIME", unix.SetsockoptString(d.from, unix.SOL_SOCKET, unix.SO_TXTIME, txtime))
	b.srv.must("timeout", unix.SetsockoptTimeval(d.to, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}))
	return d
}

// send sends a packet that asks to leave at a time, and says that it should arrive at `due`.
func (d *departing) send(due time.Duration, at uint64) {
	d.t.Helper()
	packet := binary.NativeEndian.AppendUint64(make([]byte, 0, 200), uint64(due))[:200]
	_, err := unix.SendmsgN(d.from, packet, controlMessage(unix.SOL_SOCKET, unix.SCM_TXTIME, binary.NativeEndian.AppendUint64(nil, at)), nil, 0)
	d.boxes[0].must("send", err)
}

// arrive waits for n packets and returns how long after they were due they arrive, sorted.
func (d *departing) arrive(n int) <-chan []time.Duration {
	d.t.Helper()
	done := make(chan []time.Duration)
	go func() {
		var after []time.Duration
		for packet := make([]byte, 256); len(after) < n; {
			_, _, err := unix.Recvfrom(d.to, packet, 0)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				d.t.Errorf("%d of %d packets arrive: %v", len(after), n, err)
				break
			}
			after = append(after, meter.Now()-time.Duration(binary.NativeEndian.Uint64(packet)))
		}
		slices.Sort(after)
		done <- after
	}()
	return done
}

// clocks are those that an application may name.
var clocks = map[string]int{"monotonic": unix.CLOCK_MONOTONIC, "TAI": unix.CLOCK_TAI, "real time": unix.CLOCK_REALTIME}

// timesAsked are what an application may ask for at a time of its clock.
var timesAsked = map[string]func(now uint64) uint64{
	"nothing":       func(uint64) uint64 { return 0 },
	"one":           func(uint64) uint64 { return 1 },
	"an hour ago":   func(now uint64) uint64 { return now - uint64(time.Hour) },
	"now":           func(now uint64) uint64 { return now },
	"40 ms later":   func(now uint64) uint64 { return now + uint64(wantedLater) },
	"an hour later": func(now uint64) uint64 { return now + uint64(time.Hour) },
	"the largest":   func(uint64) uint64 { return math.MaxInt64 },
	"the smallest":  func(uint64) uint64 { return 1 << 63 },
}

// wantedLater is above what a busy machine takes for a packet's way.
const wantedLater = 40 * time.Millisecond

// No time of departure of whatever clock drops a packet or has it wait for longer than was asked;
// the BPF qdisc keeps the times of the clock that fq's are of, and the fallback none.
func TestDepartureTimesOfAWorkload(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("")
	b.steered(b.start())
	const each = 20
	for clock, id := range clocks {
		d := b.departs(id)
		for asked, at := range timesAsked {
			arrived := d.arrive(each)
			for range each {
				var now unix.Timespec
				if err := unix.ClockGettime(int32(id), &now); err != nil {
					t.Fatal(err)
				}
				d.send(meter.Now(), at(uint64(now.Nano())))
				<-time.After(2 * time.Millisecond)
			}
			after := <-arrived
			if len(after) < each {
				continue
			}
			first, middle := after[0], after[each/2]
			t.Logf("%-10s %-14s after %7.2f to %7.2f ms, half of them %7.2f", clock, asked, ms(first), ms(after[each-1]), ms(middle))
			wanted := time.Duration(0)
			if clock == "monotonic" && asked == "40 ms later" && onBPF() {
				wanted = wantedLater
			}
			if first < wanted || middle > wanted+wantedLater/2 {
				t.Errorf("%s, %s: packets arrive after %v, half of them after %v; wanted is %v", clock, asked, first, middle, wanted)
			}
		}
	}
	b.addUp(b.counters(0))
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// Packets that an application sends at once and 5 ms apart by their times arrive so, beside a
// workload that fills the link.
func TestDepartureTimesBesideAFlood(t *testing.T) {
	if !onBPF() {
		t.Skip("skipped: the tc fallback has no times of departure")
	}
	b := newBed(t, 2, 1)
	b.configure("")
	b.steered(b.start())
	b.flood(0, 2, 1.2)
	b.warmUp()
	d := b.departs(unix.CLOCK_MONOTONIC)
	const packets, apart = 100, 5 * time.Millisecond
	begin, arrived := meter.Now()+wantedLater, d.arrive(packets)
	for n := range packets {
		at := begin + time.Duration(n)*apart
		d.send(at, uint64(at))
	}
	beyond := <-arrived
	if len(beyond) < packets {
		return
	}
	t.Logf("%d packets arrive %.2f to %.2f ms after the times that they ask for, half of them %.2f", len(beyond), ms(beyond[0]), ms(beyond[len(beyond)-1]), ms(beyond[len(beyond)/2]))
	if beyond[0] < 0 || beyond[len(beyond)/2] > 2*apart {
		t.Error("the times are not kept")
	}
}

// A connection whose packets have met the qdisc fq leaves its pacing to qdiscs for as long as it
// lives. It keeps its rate when Weir takes the link over from fq.
func TestConnectionPacedByFq(t *testing.T) {
	if !onBPF() {
		t.Skip("skipped: the tc fallback has no times of departure")
	}
	b := newBed(t, 1, 1)
	b.configureLinks(", force: true", "")
	b.host.run("tc qdisc replace dev up0 root handle 1: fq")
	rate := int(b.capacity / 8 / 10) // bytes a second
	var conn net.Conn
	b.boxes[0].must("connect", b.boxes[0].do(func() (err error) {
		conn, err = net.Dial("tcp4", net.JoinHostPort(serverAt(0).ip.String(), fmt.Sprint(tcpPort)))
		return err
	}))
	defer conn.Close()
	b.boxes[0].must("pace", control(conn.(*net.TCPConn), func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, rate)
	}))
	go func() {
		for buf := make([]byte, 64<<10); ; {
			if _, err := conn.Write(buf); err != nil {
				return
			}
		}
	}()
	b.warmUp()
	before := b.rates(0, 2*time.Second)
	b.steered(b.start())
	b.warmUp()
	after := b.rates(0, 2*time.Second)
	t.Logf("with fq %s, with Weir %s", inMbit(before), inMbit(after))
	b.same("with Weir", after, before, 0.02)
}
