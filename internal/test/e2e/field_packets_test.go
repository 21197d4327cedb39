// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/core/event"
	"weir/internal/lab/meter"
)

// The first packets of a class that was idle are as far apart as its max says: an estimator of
// bandwidth that sends a train sees the max and not the speed of the line.
func TestTrainIntoAnIdleClass(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("workloads:\n  w1: {max: 500kbit}\n")
	b.steered(b.start())
	b.warmUp()
	d := b.departs(unix.CLOCK_MONOTONIC)
	packets := 25 // 30 kB
	if !onBPF() {
		packets = 40 // HTB's tokens let two frames more go at once
	}
	for try := range 3 {
		arrivals := make(chan []time.Duration)
		go func() {
			var at []time.Duration
			for buffer := make([]byte, 2*payload); len(at) < packets; {
				_, _, err := unix.Recvfrom(d.to, buffer, 0)
				if err == unix.EINTR {
					continue
				}
				if err != nil {
					break // CoDel drops of a queue that is half a second long
				}
				at = append(at, meter.Now())
			}
			arrivals <- at
		}()
		train := make([]byte, payload)
		for range packets {
			if _, err := unix.Write(d.from, train); err != nil {
				t.Fatal(err)
			}
		}
		at := <-arrivals
		if len(at) < packets*3/4 {
			t.Fatalf("%d of %d packets arrive", len(at), packets)
		}
		for _, part := range []int{5, len(at)} { // the first packets of the train, and all of it
			spread, want := (at[part-1] - at[0]).Seconds(), float64(part-1)*frame*8/500e3
			t.Logf("train %d: %d packets within %.1f ms, at the max %.1f", try+1, part, 1e3*spread, 1e3*want)
			if (onBPF() || part == len(at)) && math.Abs(spread-want) > 0.1*want {
				t.Errorf("train %d: %d packets arrive within %.1f ms, want %.1f within 10 %%", try+1, part, 1e3*spread, 1e3*want)
			}
		}
		time.Sleep(time.Second)
	}
}

// sendNew sends packets that each begin a flow: SYNs from drawn ports. Its arguments are the
// packets a second and the number of the workload.
func sendNew(args []string) error {
	rate, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	from, to := workloadAt(0, number), serverAt(0)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	eth0, err := net.InterfaceByName("eth0")
	if err != nil {
		return err
	}
	packet := append(append(append([]byte{}, to.mac...), from.mac...), 8, 0)
	packet = append(packet, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, unix.IPPROTO_TCP, 0, 0)
	packet = append(append(packet, from.ip.To4()...), to.ip.To4()...)
	packet = append(packet, make([]byte, 20)...)
	tcp := packet[34:]
	tcp[2], tcp[3], tcp[12], tcp[13] = 0, 9, 5<<4, 2 // to a closed port, SYN
	return pace(uint64(rate)*60*8, 200, 60, func(number uint64) error {
		binary.BigEndian.PutUint16(tcp, uint16(number*40503))
		binary.BigEndian.PutUint32(tcp[4:], uint32(number))
		return unix.Sendto(fd, packet, 0, &unix.SockaddrLinklayer{Ifindex: eth0.Index, Halen: 6})
	})
}

// A workload that begins thousands of flows a second, with weights at their extremes, has another
// one wait no longer than its bulk alone does.
func TestStormOfNewFlows(t *testing.T) {
	b := newBed(t, 2, 1)
	b.configure("workloads:\n  w1: {weight: 10000}\n  w2: {weight: 1}\n")
	b.steered(b.start())
	b.flood(0, 1, 1.2)
	b.warmUp()
	ask := func(when string) roundTrips {
		asks := launch(b.boxes[1], "ask", fmt.Sprintf("%s:%d", serverAt(0).ip, askPort), "20ms")
		time.Sleep(4 * time.Second)
		times := asks.times()
		t.Logf("%s: %v", when, times)
		return times
	}
	bulk := ask("beside bulk")
	storm := launch(b.boxes[0], "new", fmt.Sprint(20000), "1")
	beside := ask("beside new flows, too")
	if sent := storm.stop(); sent < 20000 {
		t.Errorf("only %d flows began", sent)
	}
	if limit := bulk.part(0.99)*3/2 + 10*time.Millisecond; beside.part(0.99) > limit {
		t.Errorf("a request waits: %v, want at most %v", beside, limit)
	}
}

// What goes through a WireGuard tunnel over the link counts as the host's, which is said within two
// seconds; the tunnel as the link divides it.
func TestTunnelOverTheLinkIsSaid(t *testing.T) {
	kinds := kindsOfLinks()
	b := newKindBed(t, kinds[len(kinds)-1])
	b.nets[0].uplink = "up0"
	b.configure("")
	a := b.start()
	b.steered(a)
	if p := a.problem(event.ClassLost, true); p.Subject.Name != "link0" {
		t.Errorf("%+v", p)
	}
	b.host.down("link0")
	a.problem(event.ClassLost, false)
}
