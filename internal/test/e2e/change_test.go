// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
)

// A hundred policies drawn at random, put into force one after the other under a
// saturated link: a class that sends less than its share loses no packet and is served
// in order, and every class can say what became of each packet.
func TestPolicyChangesUnderLoad(t *testing.T) {
	const changes = 100
	b := newBed(t, 4, 1)
	b.configure("workloads:\n  \"w[123]\": {min: 20%}\n")
	a := b.start()
	b.steered(a)

	flood := b.flood(0, 4, 0.7)
	var streams []flow
	var classes []uint16
	for i := 1; i <= 3; i++ {
		streams = append(streams, b.udp(0, i, 0.12))
		classes = append(classes, a.workload(fmt.Sprintf("w%d", i)).Class)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	begin := time.Now()
	for n := range changes {
		name, change := randomChange(draw)
		if _, err := a.Set(context.Background(), name, change, false); err != nil {
			t.Fatalf("change %d of %s: %v", n, name, err)
		}
		<-time.After(10 * time.Millisecond) // or all would be within one round trip
	}
	t.Logf("%d changes in %.1f s", changes, time.Since(begin).Seconds())

	_, lost := b.settle(streams...)
	if sum(lost) > 0 {
		t.Errorf("streams below their share lost %d packets", lost)
	}
	for i, arrival := range b.arrivalsOf(streams) {
		// With several CPUs the bed's own veths change the order.
		if arrival.Late > 0 && runtime.NumCPU() == 1 {
			t.Errorf("w%d: %d of %d packets came out of order", i+1, arrival.Late, arrival.Packets)
		}
	}
	end := b.counters(0)
	for i, number := range classes {
		c := class(end, number)
		arrived := b.arrivalsOf(streams)[i].Packets
		t.Logf("w%d: class %d enqueued %d packets, sent %d, %d arrived", i+1, number, c.EnqueuedPackets, c.SentPackets, arrived)
		if c.EnqueuedPackets != arrived || c.SentPackets != arrived {
			t.Errorf("w%d: %d packets arrived, its class counted %+v", i+1, arrived, c)
		}
	}
	if n := drops(end, "reset", "link_packets", "link_bytes"); n > 0 {
		t.Errorf("%d packets dropped by the changes", n)
	}
	b.accounted([]flow{flood}, a.workload("w4").Class)
}

// randomChange returns a change that never takes from w1, w2 or w3 the rate that they
// send, 12 % of the link. Its mins always fit: weights are anything, mins 15 to 30 %, a
// max is none or 35 % at least.
func randomChange(draw *rand.Rand) (name string, c api.PolicyChange) {
	fields := []string{"weight", fmt.Sprint(1 + draw.IntN(10000))}
	limit := "none"
	if draw.IntN(2) == 0 {
		limit = fmt.Sprintf("%d%%", 35+draw.IntN(60))
	}
	fields = append(fields, "max", limit)
	who := 1 + draw.IntN(4)
	if who < 4 { // w4 has no min: it is what saturates the link
		fields = append(fields, "min", fmt.Sprintf("%d%%", 15+draw.IntN(15)))
	}
	return fmt.Sprintf("w%d", who), apitest.Change(fields...)
}
