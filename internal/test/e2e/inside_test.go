// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
)

// needsQueues skips a test where the backend has no queues inside a workload.
func needsQueues(t *testing.T) {
	t.Helper()
	if !onBPF() {
		t.Skip("skipped: the tc fallback has neither disciplines nor groups; a VM (vm/run) has")
	}
}

// The queues of most tests here.
const (
	voiceQueue = "voice: {rate: 2mbit, match: [{udp: 5001}]}"
	videoQueue = "video: {min: 3mbit, match: [{udp: 5002}, {dscp: af41}]}"
	restQueue  = "rest: {min: 1mbit}"
)

// discipline sets a workload's discipline and queues as a user does.
func (b *bed) discipline(name, discipline string, queues ...string) {
	b.t.Helper()
	args := []string{"set", name, "--discipline", discipline}
	for _, q := range queues {
		args = append(args, "--queue", q)
	}
	b.weir(args...)
}

// queues returns the queues of a workload in network 0 as weir get shows them, by name.
func (b *bed) queues(name string) map[string]api.QueueTraffic {
	b.t.Helper()
	queues := map[string]api.QueueTraffic{}
	for _, l := range b.get()[name].Links {
		for _, q := range l.Queues {
			queues[q.Name] = q
		}
	}
	return queues
}

// handful sends a number of packets of one kind, below any share.
func (b *bed) handful(o offer) flow {
	b.t.Helper()
	o.share = 0.05
	f := b.offer(o)
	await(b.t, 5*time.Second, "packets to be counted", func() error {
		if got := b.arrivalsOf([]flow{f})[0].Packets; got < 20 {
			return fmt.Errorf("%d arrived", got)
		}
		return nil
	})
	return f
}

// Rules put each packet of a workload, and of the host, into its queue: by port
// and by DSCP, over IPv4 and IPv6. The receiver sees the code points that were
// asked for, weir get counts each queue's packets.
func TestRulesFillQueues(t *testing.T) {
	needsQueues(t)
	b := newBed(t, 1, 1)
	b.ipv6()
	b.hostSends()
	b.configure("")
	a := b.start()
	b.steered(a)
	for _, name := range []string{"w1", "host"} {
		b.discipline(name, "llq", voiceQueue, "video: {min: 3mbit, match: [{udp: 5002}, {dscp: af41}], dscp: af42}", restQueue)
		b.weir("set", name, "--dscp", "cs1")
		await(t, 5*time.Second, "queues of "+name+" are listed", func() error { // from the agent's next look at the counters on
			if n := len(b.queues(name)); n != 3 {
				return fmt.Errorf("%d of 3", n)
			}
			return nil
		})
	}
	for _, test := range []struct {
		name   string
		o      offer
		queue  string
		dscp   uint8
		lookup []string // of weir explain
	}{
		{"port of voice", offer{port: voicePort}, "voice", 8, []string{"--udp", ":5001"}},
		{"port of video", offer{port: videoPort}, "video", 36, []string{"--udp", ":5002"}},
		{"another port", offer{port: otherPort}, "rest", 8, []string{"--udp", ":5003"}},
		{"code point of video", offer{port: otherPort, dscp: 34}, "video", 36, []string{"--udp", ":5003", "--dscp", "af41"}},
		{"the first rule wins", offer{port: voicePort, dscp: 34}, "voice", 8, []string{"--udp", ":5001", "--dscp", "34"}},
	} {
		for _, sender := range []struct {
			from int
			name string
			ipv6 bool
		}{{1, "w1", false}, {1, "w1", true}, {0, "host", false}} {
			t.Run(fmt.Sprintf("%s of %s, IPv6 %t", test.name, sender.name, sender.ipv6), func(t *testing.T) {
				b := b.with(t)
				o := test.o
				o.from, o.ipv6 = sender.from, sender.ipv6
				before := b.queues(sender.name)
				f := b.handful(o)
				sent, lost := b.settle(f)
				if lost[0] > 0 {
					t.Errorf("%d of %d packets lost", lost[0], sent[0])
				}
				arrived := b.arrivalsOf([]flow{f})[0]
				if arrived.Codes[test.dscp] != sent[0] {
					t.Errorf("%d packets sent, DSCP %d expected, arrived with %v", sent[0], test.dscp, arrived.Codes)
				}
				await(t, 5*time.Second, "weir get counts them", func() error {
					for name, now := range b.queues(sender.name) {
						want := uint64(0)
						if name == test.queue {
							want = sent[0]
						}
						if got := now.SentPackets - before[name].SentPackets; got != want {
							return fmt.Errorf("queue %s: %d packets, should be %d", name, got, want)
						}
					}
					return nil
				})
				said, _, _ := strings.Cut(b.weir(append([]string{"explain", sender.name}, test.lookup...)...), "\n")
				if want := sender.name + ", llq: queue " + test.queue; said != want {
					t.Errorf("weir explain says %q, should be %q", said, want)
				}
			})
		}
	}
	b.addUp(b.counters(0))
}

// A workload's own queues keep what they were promised while both it and another
// workload send more than there is.
func TestQueuesUnderLoad(t *testing.T) {
	needsQueues(t)
	small, large := offer{size: 100}, offer{}
	for _, test := range []struct {
		name, discipline string
		queues           []string
		strict           bool      // nothing of the first stream is lost
		streams          []offer   // one to each queue
		shares           []float64 // of what the streams have together; 0 = all it sends
	}{
		{"llq", "llq", []string{voiceQueue, videoQueue, restQueue}, true, []offer{large, large, large}, []float64{0, 3, 1}},
		{"llq beside small packets", "llq", []string{voiceQueue, videoQueue, restQueue}, true, []offer{large, small, small}, []float64{0, 3, 1}},
		{"pq", "pq", []string{"voice: {match: [{udp: 5001}]}", "video: {match: [{udp: 5002}]}", "rest: {}"}, true, []offer{large, large, large}, []float64{0, 1, 0}},
		{"pq beside small packets", "pq", []string{"voice: {match: [{udp: 5001}]}", "video: {match: [{udp: 5002}]}", "rest: {}"}, true, []offer{large, small, small}, []float64{0, 1, 0}},
		{"cbwfq", "cbwfq", []string{"voice: {min: 2mbit, match: [{udp: 5001}]}", videoQueue, restQueue}, false, []offer{large, large, large}, []float64{2, 3, 1}},
		{"cbwfq, unequal packets", "cbwfq", []string{"voice: {min: 2mbit, match: [{udp: 5001}]}", videoQueue, restQueue}, false, []offer{small, large, small}, []float64{2, 3, 1}},
	} {
		if !*long && !strings.Contains(test.name, "packets") {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			b := newBed(t, 2, 1)
			b.configure("")
			a := b.start()
			b.steered(a)
			b.discipline("w1", test.discipline, test.queues...)
			b.flood(0, 2, 0.8)
			var flows []flow
			for i, o := range test.streams {
				o.from, o.port, o.share, o.burst = 1, voicePort+i, 0.6, 200
				if i == 0 && test.strict {
					o.share, o.burst = 0.06, 0
				}
				flows = append(flows, b.offer(o))
			}
			b.warmUp()
			before := b.arrivalsOf(flows)
			begin := time.Now()
			b.same("workloads", b.rates(0, 4*time.Second), []float64{float64(b.capacity) / 2e6, float64(b.capacity) / 2e6}, 0.02)
			var rates, ideal []float64
			all, parts := 0.0, 0.0
			elapsed := time.Since(begin).Seconds()
			for i, now := range b.arrivalsOf(flows) {
				wire := payload + headers
				if test.streams[i].size > 0 {
					wire = test.streams[i].size + headers
				}
				rates = append(rates, float64((now.Packets-before[i].Packets)*uint64(wire)*8)/elapsed/1e6)
				if !test.strict || i > 0 {
					all, parts = all+rates[i], parts+test.shares[i]
				}
			}
			for i, share := range test.shares {
				ideal = append(ideal, all*share/parts)
				if test.strict && i == 0 {
					ideal[0] = rates[0] // judged by the lost packets
				}
			}
			b.within2(rates, ideal)
			sent, lost := b.settle(flows...)
			t.Logf("sent %d, lost %d packets", sent, lost)
			if test.strict && lost[0] > 0 {
				t.Errorf("the first queue lost %d of %d packets", lost[0], sent[0])
			}
			end := b.counters(0)
			b.addUp(end)
			c := class(end, a.workload("w1").Class)
			for i, q := range c.Queues {
				if q.EnqueuedPackets != sent[i] || total(q.Drops) != lost[i] {
					t.Errorf("queue %d: %d sent to it and %d missing, it counted %+v", i, sent[i], lost[i], q)
				}
			}
		})
	}
}

// within2 fails the test if a rate differs from its ideal by more than 2 % of it,
// or, where it should be nothing, by 0.5 % of the link.
func (b *bed) within2(rates, ideal []float64) {
	b.t.Helper()
	b.t.Logf("%s, ideal %s", inMbit(rates), inMbit(ideal))
	for i := range ideal {
		most := max(0.02*ideal[i], 0.005*float64(b.capacity)/1e6)
		if off := rates[i] - ideal[i]; off > most || off < -most {
			b.t.Errorf("queue %d: %.3f Mbit/s, should be %.3f within %.3f", i, rates[i], ideal[i], most)
		}
	}
}

// A request beside many bulk streams of the same workload does not wait behind
// them, unless one asks for a single queue.
func TestRequestsBesideBulk(t *testing.T) {
	needsQueues(t)
	streams, window, pause := 24, 5*time.Second, time.Duration(0)
	if *long {
		// The share of each is 150 kbit/s. Who asks without a pause wants more (330
		// requests of 67 bytes a second are 177) and waits like the others, a round of
		// 77 ms for the p99. At 100 Mbit/s (lab/bars/many-flows.yaml) it wants less.
		streams, window, pause = 128, 20*time.Second, 10*time.Millisecond
	}
	b := newBed(t, 1, 1)
	b.configure("workloads:\n  w1: {max: 80%}\n")
	a := b.start()
	b.steered(a)
	b.tcps(0, 1, streams)
	measure := func(discipline string) roundTrips {
		b.weir("set", "w1", "--discipline", discipline)
		<-time.After(3 * time.Second)
		// Several, since one may share its place among 256 with a bulk stream.
		var asking []*process
		for range 5 {
			asking = append(asking, launch(b.boxes[0], "ask", fmt.Sprintf("%s:%d", serverAt(0).ip, askPort), pause.String()))
		}
		b.same("beside "+fmt.Sprint(streams)+" streams", b.rates(0, window), []float64{0.8 * float64(b.capacity) / 1e6}, 0.02)
		var all []roundTrips
		for _, p := range asking {
			all = append(all, p.times())
			t.Logf("%s: %v", discipline, all[len(all)-1])
		}
		slices.SortFunc(all, func(a, b roundTrips) int { return int(a.part(0.99) - b.part(0.99)) })
		return all[len(all)/2]
	}
	if p99 := measure("sfq").part(0.99); p99 > 10*time.Millisecond {
		t.Errorf("sfq: p99 is %v, should be less than 10 ms", p99)
	}
	if p99 := measure("fifo").part(0.99); p99 < 20*time.Millisecond {
		t.Errorf("fifo: p99 is %v: the streams do not fill the queue, and the figure for sfq says nothing", p99)
	}
	b.addUp(b.counters(0))
}
