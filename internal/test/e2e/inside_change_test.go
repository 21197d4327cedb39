// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/lab/meter"
)

// A thousand disciplines and rules drawn at random, put into force one after the
// other while more is offered than the link carries. The link is never idle, a class that
// sends less than its share loses no packet and never waits for long, and every
// class and queue can say what became of each packet.
func TestDisciplineChangesUnderLoad(t *testing.T) {
	needsQueues(t)
	changes := 100
	if *long {
		changes = 1000
	}
	b := newBed(t, 2, 1)
	b.configure("")
	a := b.start()
	b.steered(a)

	var modest, floods []flow
	for _, port := range udpPorts {
		modest = append(modest, b.offer(offer{from: 1, port: port, share: 0.05}))
		floods = append(floods, b.offer(offer{from: 2, port: port, share: 0.3, burst: 200}))
	}
	b.warmUp()
	b.arrivalsOf(modest) // gaps count from here

	b.changes(changes, urgentLead, func(n int, draw *rand.Rand) error {
		if n%100 == 0 {
			b.addUp(b.counters(0))
		}
		name, change := fmt.Sprintf("w%d", 1+draw.IntN(2)), randomDiscipline(draw)
		if _, err := a.Set(context.Background(), name, change, false); err != nil {
			return fmt.Errorf("%s: %w: %+v", name, err, change)
		}
		return nil
	})
	for i, f := range b.arrivalsOf(modest) {
		if f.Gap > 200*time.Millisecond {
			t.Errorf("stream %d of w1: nothing arrived for %v", i, f.Gap)
		}
		if late := b.arrivalsOf(floods)[i]; late.Packets == 0 {
			t.Errorf("stream %d of w2: nothing arrived", i)
		}
	}

	sent, lost := b.settle(modest...)
	t.Logf("w1: of %d packets, %d lost", sent, lost)
	if sum(lost) > 0 {
		t.Errorf("streams below their share lost %d packets", lost)
	}
	offered, missing := b.settle(floods...)
	t.Logf("w2: of %d packets, %d lost", offered, missing)
	end := b.counters(0)
	b.addUp(end)
	c1, c2 := class(end, a.workload("w1").Class), class(end, a.workload("w2").Class)
	t.Logf("w1: %+v", c1)
	t.Logf("w2: %+v", c2)
	if c1.EnqueuedPackets != sum(sent) || c1.SentPackets != sum(sent) {
		t.Errorf("w1: %d packets sent, its class counted %+v", sum(sent), c1)
	}
	if c2.EnqueuedPackets != sum(offered) || total(c2.Drops) != sum(missing) {
		t.Errorf("w2: %d packets offered and %d missing, its class counted %+v", sum(offered), sum(missing), c2)
	}
	if n := drops(end, "reset", "link_packets", "link_bytes"); n > 0 {
		t.Errorf("%d packets dropped by the changes", n)
	}
}

// changes makes n changes drawn at random, one after the other, and checks that the link
// never rests meanwhile, and that no workload is ahead of the line by more than a lead.
func (b *bed) changes(n int, lead time.Duration, change func(n int, draw *rand.Rand) error) {
	b.t.Helper()
	seed := uint64(time.Now().UnixNano())
	b.t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	from := b.nets[0].meter.Align(meter.Now())
	begin := time.Now()
	for i := range n {
		if err := change(i, draw); err != nil {
			b.t.Fatalf("change %d: %v", i, err)
		}
		<-time.After(time.Duration(draw.IntN(20)) * time.Millisecond) // or all would be within one round trip
	}
	length := time.Since(begin)
	b.t.Logf("%d changes in %.1f s", n, length.Seconds())
	b.neverRests(from, length, lead)
}

// urgentLead is how far llq's strict queue may be ahead of the line: URGENT_NS of
// bpf/schedulers/fair_tier.h.
const urgentLead = 5 * time.Millisecond

// neverRests checks that 98 % of the link were used in each tenth of a second. What
// was sent ahead of the line, up to a lead, the tenth after it may lack.
func (b *bed) neverRests(from, length, most time.Duration) {
	b.t.Helper()
	timeline, err := b.nets[0].meter.Read(from)
	if err != nil {
		b.t.Fatal(err)
	}
	const tenth = 10 // buckets
	const part = 0.98
	least, alone, lead := 1e9, 1e9, 0.0 // parts of what the link carries in a tenth
	for at := 0; at+tenth <= int(length/(10*time.Millisecond)); at += tenth {
		sum := uint64(0)
		for _, bytes := range timeline.Bytes {
			for _, n := range bytes[at : at+tenth] {
				sum += n
			}
		}
		used := float64(sum) * 8 * 10 / float64(b.capacity)
		least, alone = min(least, used+lead), min(alone, used)
		lead = max(0, min(lead+used-1, most.Seconds()*10))
	}
	b.t.Logf("least used in a tenth of a second: %.2f %% of the link, %.2f %% with what was ahead of it", 100*alone, 100*least)
	if least < part {
		b.t.Errorf("in one tenth of a second only %.2f %% of the link were used", 100*least)
	}
}

// randomDiscipline returns a discipline that polices nothing: the rate of llq's first
// queue is half of the link.
func randomDiscipline(draw *rand.Rand) api.PolicyChange {
	disciplines := []string{"sfq", "fifo", "pq", "cbwfq", "llq"}
	discipline := disciplines[draw.IntN(len(disciplines))]
	aqm := []string{"default", "default", "off", "5ms/100ms"}[draw.IntN(4)]
	var queues []policy.Queue
	if discipline != "sfq" && discipline != "fifo" {
		weighed := discipline != "pq" && draw.IntN(4) > 0
		for i := range 1 + draw.IntN(8) {
			q := policy.Queue{Name: fmt.Sprintf("q%d", i)}
			if weighed {
				q.Min.Rate = []policy.Rate{1e3, 10e3, 100e3, 500e3}[draw.IntN(4)]
			}
			if i == 0 && discipline == "llq" {
				q.Min, q.Rate = policy.Amount{}, policy.Amount{Percent: 50}
			}
			queues = append(queues, q)
		}
		// Each port belongs to one of them, or to none; the last takes the rest.
		for _, port := range udpPorts {
			if q := draw.IntN(len(queues)); q < len(queues)-1 {
				queues[q].Match = append(queues[q].Match, udpMatch(port))
			}
		}
		for i := range queues[:len(queues)-1] {
			if queues[i].Match == nil {
				queues[i].Match = []classify.Match{udpMatch(6000 + i)}
			}
		}
	}
	c := apitest.Change("discipline", discipline, "aqm", aqm)
	c.Set("queues", func(p *policy.Policy) { p.Queues = queues })
	return c
}

func udpMatch(port int) classify.Match {
	return classify.Match{UDP: []classify.PortRange{{First: uint16(port), Last: uint16(port)}}}
}
