// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/core/delay"
	"weir/internal/core/plan"
	"weir/internal/core/policy/discipline"
)

// nowNs is the time that sender and receiver of a test share.
func nowNs(t *testing.T) uint64 {
	var at unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &at))
	return uint64(at.Nano())
}

// TestPacketsAndTheirDelays: on a real kernel the histogram says how long packets really waited,
// within 5 % at p50 and p99, of a class and of its queue; a class that is made anew begins at
// nothing. One packet in seven is dropped, and a drawn one that is counts for nothing, so how
// many are counted is off by chance: by 1 % (one standard deviation) in ten seconds.
func TestPacketsAndTheirDelays(t *testing.T) {
	for _, name := range []discipline.Name{discipline.FIFO, discipline.CBWFQ} {
		t.Run(string(name), func(t *testing.T) {
			b := newBackend(t, onLink(t))
			state := marking(name)
			state.Classes[0].AQM = plan.AQM{}
			state.Classes[0].Limit.Packets = 60
			must(t, b.Set(context.Background(), state))
			exact := sendTimed(t, 6e6, 10*time.Second)
			snap, err := b.Counters()
			must(t, err)
			c := snap.Classes[0]
			list := map[string]*delay.Histogram{"class": c.Delays}
			if name == discipline.CBWFQ {
				list["queue"] = c.Queues[0].Delays
			}
			for what, h := range list {
				for _, part := range []float64{0.5, 0.99} {
					got, want := h.Quantile(part), exactly(exact, part)
					t.Logf("%s: p%v is %v, exactly %v, of %d packets", what, 100*part, got, want, len(exact))
					if diff := (got - want).Abs(); diff > want/20 {
						t.Errorf("%s: p%v is %v, exactly %v", what, 100*part, got, want)
					}
				}
			}
			if n := c.Delays.Count(); n < c.SentPackets*95/100 || n > c.SentPackets*105/100+8 {
				t.Errorf("%d packets are counted, %d left", n, c.SentPackets)
			}
			one := plan.Class{ID: 1, Name: "one", Weight: 1}
			for range 2 {
				must(t, b.Set(context.Background(), plan.State{Link: state.Link, Classes: append(state.Classes, one)}))
				must(t, b.obj.delays.Update(delayKey(1, -1), qdiscWeirDelays{Packets: [delay.Bins]uint32{7: 3}}, 0))
				snap, err := b.Counters()
				must(t, err)
				if n := snap.Classes[1].Delays.Count(); n != 3 {
					t.Errorf("%d packets of class 1", n)
				}
				must(t, b.Set(context.Background(), state))
			}
			must(t, b.Set(context.Background(), plan.State{Link: state.Link, Classes: append(state.Classes, one)}))
			snap, err = b.Counters()
			must(t, err)
			if n := snap.Classes[1].Delays.Count(); n != 0 {
				t.Errorf("a class that was made anew has the delays of %d packets", n)
			}
			must(t, b.Cleanup(context.Background()))
		})
	}
}

// sendTimed sends packets of 1,042 bytes at a rate for a while, and returns how long each of
// those that came out of the link took.
func sendTimed(t *testing.T, bps float64, over time.Duration) (took []time.Duration) {
	t.Helper()
	up1, err := netlink.LinkByName("up1")
	must(t, err)
	// 8 is ETH_P_IP in the network's order.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 8)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 8, Ifindex: up1.Attrs().Index}))
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}))
	done := make(chan []time.Duration)
	go func() {
		var list []time.Duration
		frame := make([]byte, 2048)
		for {
			n, from, err := unix.Recvfrom(fd, frame, 0)
			if err != nil {
				done <- list
				return
			}
			if from.(*unix.SockaddrLinklayer).Pkttype != unix.PACKET_OUTGOING && n == 1028 {
				list = append(list, time.Duration(nowNs(t)-binary.NativeEndian.Uint64(frame[28:])))
			}
		}
	}()
	conn, err := net.Dial("udp4", "10.9.0.2:9")
	must(t, err)
	defer conn.Close()
	packet := make([]byte, 1000)
	gap := time.Duration(1042 * 8 / bps * 1e9)
	for next, end := time.Now(), time.Now().Add(over); next.Before(end); next = next.Add(gap) {
		time.Sleep(time.Until(next))
		binary.NativeEndian.PutUint64(packet, nowNs(t))
		_, err := conn.Write(packet)
		must(t, err)
	}
	return <-done
}
