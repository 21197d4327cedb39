// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os/exec"
	"testing"
	"time"

	"weir/internal/base/nsthread"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/lab/scenario"
)

const (
	firstPart, secondPart = 1 << 20, 3 << 20 // bytes of payload
	pause                 = 300 * time.Millisecond
	receiverPort          = 7000
)

// pair is a sender and a receiver that a meter counts at:
//
//	sender (10.0.0.1) eth0 ── eth0 receiver (10.0.0.2)
type pair struct {
	t                *testing.T
	sender, receiver *netnstest.Netns
	meter            *Arrivals
}

// newPair makes both ends; inward, the receiver is the workload.
func newPair(t *testing.T, inward bool, netem ...string) *pair {
	t.Helper()
	p := &pair{t: t}
	p.sender = netnstest.Enter(t)
	p.receiver = netnstest.New(t)
	p.sender.Run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", p.receiver.Name)
	for i, end := range []*netnstest.Netns{p.sender, p.receiver} {
		end.Run("ip", "addr", "add", fmt.Sprintf("10.0.0.%d/24", i+1), "dev", "eth0")
		end.Run("ip", "link", "set", "eth0", "up")
	}
	if len(netem) > 0 {
		args := append([]string{"qdisc", "add", "dev", "eth0", "root", "netem"}, netem...)
		if out, err := exec.Command("tc", args...).CombinedOutput(); err != nil {
			t.Skipf("skipped: no netem here: %s", out)
		}
	}
	workload := []byte{10, 0, 0, 1}
	if inward {
		workload[3] = 2
	}
	var err error
	p.meter, err = New(Config{
		FirstAddress: binary.BigEndian.Uint32(workload), Workloads: 1, Length: time.Minute, Inward: inward, Payload: true,
		Flows: []Flow{{Proto: 6, Port: receiverPort}, {Proto: 17, Port: receiverPort, Row: 1}}, Rows: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.meter.Close)
	p.inside(func() error {
		device, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		return p.meter.Attach(device.Index)
	})
	return p
}

// inside calls f on a thread of the receiver's namespace.
func (p *pair) inside(f func() error) {
	p.t.Helper()
	if err := nsthread.InPath(p.receiver.Path(), f); err != nil {
		p.t.Fatal(err)
	}
}

// transfer sends two parts by TCP with a pause between them, and returns when the
// program had read all of the first, CLOCK_MONOTONIC.
func (p *pair) transfer() (middle time.Duration) {
	p.t.Helper()
	var listener net.Listener
	p.inside(func() (err error) {
		listener, err = net.Listen("tcp", fmt.Sprintf("10.0.0.2:%d", receiverPort))
		return err
	})
	p.t.Cleanup(func() { listener.Close() })
	sender, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { sender.Close() }) // its FIN would count
	receiver, err := listener.Accept()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { receiver.Close() })
	for _, n := range []int64{firstPart, secondPart} {
		failed := make(chan error, 1)
		go func() { _, err := sender.Write(make([]byte, n)); failed <- err }()
		if _, err := io.CopyN(io.Discard, receiver, n); err != nil {
			p.t.Fatal(err)
		}
		if err := <-failed; err != nil {
			p.t.Fatal(err)
		}
		if middle == 0 {
			time.Sleep(pause) // a delayed acknowledgement has left by then
			middle = Now()
			time.Sleep(2 * scenario.Bucket) // a bucket has either part or none
		}
	}
	time.Sleep(pause)
	return middle
}

// sum adds up a row of the payload before and after an instant.
func (p *pair) sum(row int, middle time.Duration) (before, after uint64) {
	p.t.Helper()
	timeline, err := p.meter.Read(p.meter.Start)
	if err != nil {
		p.t.Fatal(err)
	}
	for b, n := range timeline.Payload[row] {
		if p.meter.Start+time.Duration(b)*scenario.Bucket < middle {
			before += n
		} else {
			after += n
		}
	}
	return before, after
}

// TestPayload: what the program reads is counted to the byte and when it can be read,
// in either direction, whatever is lost or overtaken on the way.
func TestPayload(t *testing.T) {
	for _, tt := range []struct {
		name   string
		inward bool
		netem  []string
	}{
		{"outward", false, nil},
		{"inward", true, nil},
		{"lossy", false, []string{"loss", "2%", "limit", "10000"}},
		{"out of order", false, []string{"delay", "2ms", "reorder", "75%", "limit", "10000"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t, tt.inward, tt.netem...)
			middle := p.transfer()
			for row, name := range []string{"workload", "flow"} {
				if before, after := p.sum(row, middle); before != firstPart || after != secondPart {
					t.Errorf("%s: %d and %d bytes, the program read %d and %d", name, before, after, firstPart, secondPart)
				}
			}
			if before, after := p.sum(2, middle); before+after != 0 {
				t.Errorf("the other flow has %d bytes", before+after)
			}
		})
	}
}

// TestPayloadOfDatagrams: headers do not count.
func TestPayloadOfDatagrams(t *testing.T) {
	p := newPair(t, false)
	p.inside(func() error {
		c, err := net.ListenPacket("udp", fmt.Sprintf("10.0.0.2:%d", receiverPort))
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err
	})
	c, err := net.Dial("udp", fmt.Sprintf("10.0.0.2:%d", receiverPort))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 100 {
		if _, err := c.Write(make([]byte, 500)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(pause)
	for row, want := range []uint64{50000, 0, 50000} {
		if got, _ := p.sum(row, Now()); got != want {
			t.Errorf("row %d: %d bytes, want %d", row, got, want)
		}
	}
}
