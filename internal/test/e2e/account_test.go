// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/bpf"
	"weir/internal/host/dataplane/tc"
)

// flow is a numbered UDP stream from a workload.
type flow struct {
	id uint64
	*process
}

// udp starts a stream from workload i to the server in network n, without bursts
// that could find a queue full; share is what it offers as a part of the link's
// capacity.
func (b *bed) udp(n, i int, share float64) flow { b.t.Helper(); return b.stream(n, i, share, 40) }

// flood starts a stream that offers more than it can get, also where it shares
// its CPU with others.
func (b *bed) flood(n, i int, share float64) flow { b.t.Helper(); return b.stream(n, i, share, 200) }

func (b *bed) stream(n, i int, share float64, burst int) flow {
	b.t.Helper()
	return b.offer(offer{network: n, from: i, share: share, burst: burst})
}

// offer describes the packets of one stream.
type offer struct {
	network int
	from    int     // number of the workload; 0 is the host
	ipv6    bool    // needs bed.ipv6
	port    int     // of the receiver; 0 is udpPort
	share   float64 // of the link's capacity
	burst   int     // packets that it makes up for after it was kept from sending; 0 is 40
	size    int     // payload of a datagram in bytes; 0 is payload
	dscp    int
}

// offer starts a stream to the server.
func (b *bed) offer(o offer) flow {
	b.t.Helper()
	*b.flows++
	f := flow{id: *b.flows}
	at, from := serverAt(o.network).ip, b.host
	if o.from > 0 {
		from = b.boxes[o.from-1]
	}
	if o.ipv6 {
		at = serverAt(o.network).ipv6()
	}
	f.process = launch(from, "udp", net.JoinHostPort(at.String(), fmt.Sprint(cmp.Or(o.port, udpPort))),
		fmt.Sprint(f.id), fmt.Sprint(uint64(o.share*float64(b.capacity))), fmt.Sprint(cmp.Or(o.burst, 40)),
		fmt.Sprint(cmp.Or(o.size, payload)), fmt.Sprint(o.dscp<<2))
	return f
}

// tcp starts a stream that sends all it can.
func (b *bed) tcp(n, i int) *process {
	b.t.Helper()
	return b.tcps(n, i, 1)
}

// tcps starts so many streams that send all they can, in one process.
func (b *bed) tcps(n, i, streams int) *process {
	b.t.Helper()
	return launch(b.boxes[i-1], "tcp", fmt.Sprintf("%s:%d", serverAt(n).ip, tcpPort), fmt.Sprint(streams))
}

// settle stops streams and waits for the packets on their way. It returns how many
// packets of each were sent, and how many of these have not arrived.
func (b *bed) settle(flows ...flow) (sent, lost []uint64) {
	b.t.Helper()
	for _, f := range flows {
		sent = append(sent, f.stop())
	}
	lost = make([]uint64, len(flows))
	var came uint64
	for quiet := time.Now(); time.Since(quiet) < time.Second; <-time.After(50 * time.Millisecond) {
		now := uint64(0)
		for i, a := range b.arrivalsOf(flows) {
			lost[i] = sent[i] - a.Packets
			now += a.Packets
		}
		if now == sum(sent) {
			break
		}
		if now != came {
			came, quiet = now, time.Now()
		}
	}
	return sent, lost
}

// accounted stops streams and checks that the classes, of one stream each, know
// of every packet: what did not arrive was dropped because its own queue was full
// or had been so for too long.
func (b *bed) accounted(flows []flow, classes ...uint16) {
	b.t.Helper()
	sent, lost := b.settle(flows...)
	end := b.counters(0)
	b.addUp(end)
	for i, number := range classes {
		c := class(end, number)
		full := c.Drops["class_packets"] + c.Drops["class_bytes"] + c.Drops["queue"] + c.Drops["aqm"]
		b.t.Logf("class %d: %d packets offered, %d enqueued, %d arrived, %d found their queue full", number, sent[i], c.EnqueuedPackets, sent[i]-lost[i], full)
		if c.EnqueuedPackets != sent[i] || full != lost[i] {
			b.t.Errorf("class %d: %d packets offered and %d missing, but %d enqueued and %d found their queue full: %+v",
				number, sent[i], lost[i], c.EnqueuedPackets, full, c)
		}
	}
}

func (b *bed) arrivalsOf(flows []flow) []arrival {
	b.t.Helper()
	all := b.receiver.arrivals()
	var list []arrival
	for _, f := range flows {
		list = append(list, all[f.id])
	}
	return list
}

func sum(list []uint64) (total uint64) {
	for _, n := range list {
		total += n
	}
	return total
}

// counters reads what the kernel counted for network n, past the agent.
func (b *bed) counters(n int) dataplane.LinkCounters {
	b.t.Helper()
	var snapshot dataplane.LinkCounters
	err := b.host.do(func() error {
		backend, err := b.backend(n)
		if err != nil {
			return err
		}
		defer backend.Close()
		if _, err := backend.State(); err != nil {
			return err
		}
		snapshot, err = backend.Counters()
		return err
	})
	if err != nil {
		b.t.Fatalf("read the kernel's counters: %v", err)
	}
	return snapshot
}

func (b *bed) backend(n int) (dataplane.Backend, error) {
	opts := dataplane.Options{StateDir: b.stateDir()}
	if onBPF() {
		return bpf.New(b.nets[n].uplink, opts, slog.New(slog.DiscardHandler))
	}
	return tc.New(b.nets[n].uplink, opts, slog.New(slog.DiscardHandler))
}

// addUp checks that no class and no queue has lost a packet without counting it.
func (b *bed) addUp(s dataplane.LinkCounters) {
	b.t.Helper()
	for id, c := range s.Classes {
		if c.EnqueuedPackets != c.SentPackets+total(c.Drops)+c.BacklogPackets {
			b.t.Errorf("class %d: %d packets enqueued, but %d sent, %d dropped and %d waiting",
				id, c.EnqueuedPackets, c.SentPackets, total(c.Drops), c.BacklogPackets)
		}
		for i, q := range c.Queues {
			if q.EnqueuedPackets != q.SentPackets+total(q.Drops)+q.BacklogPackets {
				b.t.Errorf("class %d, queue %d: %d packets enqueued, but %d sent, %d dropped and %d waiting",
					id, i, q.EnqueuedPackets, q.SentPackets, total(q.Drops), q.BacklogPackets)
			}
		}
	}
}

// total returns how many packets were dropped, for whatever reason.
func total(drops map[string]uint64) (n uint64) {
	for _, d := range drops {
		n += d
	}
	return n
}

// drops returns how many packets were dropped for one of the reasons; of all, if none is
// given.
func drops(s dataplane.LinkCounters, reasons ...string) (total uint64) {
	for _, c := range s.Classes {
		for reason, n := range c.Drops {
			if len(reasons) == 0 || strings.Contains(strings.Join(reasons, " "), reason) {
				total += n
			}
		}
	}
	return total
}

// class finds the class of a workload by the number that the agent gave it.
func class(s dataplane.LinkCounters, number uint16) dataplane.Counters {
	return s.Classes[plan.ClassID(number)]
}
