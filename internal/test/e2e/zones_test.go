// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// IPv4 is a zone of 40 % of the link and IPv6 is what it leaves. Each is divided for itself; other
// prefixes come into force under load; and a zone that the configuration loses while no agent runs
// is gone after the next start.
func TestZones(t *testing.T) {
	b := newBed(t, 2, 1)
	b.ipv6()
	before := b.traces()
	link := float64(b.capacity) / 1e6
	configure := func(zones string) {
		b.t.Helper()
		in := ""
		if zones != "" {
			in = ", zones: {far: {max: 25%}}"
		}
		b.configureLinks(zones, "workloads:\n  w1: {weight: 3"+in+"}\n")
	}
	far := func(prefix string) string {
		return fmt.Sprintf(", zones: {far: {egress: %dbit, prefixes: [%s]}}", b.capacity*4/10, prefix)
	}
	configure(far("10.88.0.0/16"))
	a := b.start()
	b.steered(a)
	b.healthy()
	var flows []flow
	for _, o := range []offer{{from: 1, share: 0.5}, {from: 2, share: 0.5}, {from: 1, share: 0.8, ipv6: true}, {from: 2, share: 0.8, ipv6: true}} {
		o.burst = 200
		flows = append(flows, b.offer(o))
	}
	// expect compares what arrives of each flow in three seconds, in parts of the link. Two
	// values are those of the workloads: which of its flows sends what is its discipline's
	// business.
	expect := func(what string, want ...float64) {
		t.Helper()
		b.warmUp()
		begin, begun := b.arrivalsOf(flows), time.Now()
		time.Sleep(3 * time.Second)
		end, over := b.arrivalsOf(flows), time.Since(begun)
		var got []float64
		for i := range flows {
			size := float64(frame)
			if i >= 2 {
				size += 20 // IPv6
			}
			got = append(got, float64(end[i].Packets-begin[i].Packets)*8*size/over.Seconds()/1e6)
		}
		if len(want) == 2 {
			got = []float64{got[0] + got[2], got[1] + got[3]}
		}
		for i := range want {
			want[i] *= link
		}
		b.same(what, got, want, 0.02)
	}
	// Of 40 %, w1 has its max, a quarter; the rest, 60 %, is 3 to 1.
	expect("zones", 0.1, 0.3, 0.45, 0.15)
	isFar := func() bool {
		return strings.Contains(b.weir("explain", "w1", "--udp", fmt.Sprintf("%s:%d", serverAt(0).ip, udpPort)), "zone far")
	}
	if !isFar() {
		t.Error("weir explain names no zone")
	}
	configure(far("192.0.2.0/24"))
	await(t, 5*time.Second, "other prefixes", func() error {
		if isFar() {
			return errors.New("the server is in zone far")
		}
		return nil
	})
	expect("nobody in the zone", 0.75, 0.25)
	configure(far("10.88.0.0/16"))
	expect("the former prefixes", 0.1, 0.3, 0.45, 0.15)
	a.kill()
	configure("")
	a = b.start()
	b.steered(a)
	if text := b.host.run("ip -br link show type ifb"); text != "" {
		t.Errorf("after a start without zones there is\n%s", text)
	}
	expect("without zones", 0.75, 0.25)
	for _, f := range flows {
		f.stop()
	}
	a.stop()
	b.weir("cleanup", "--config", b.configFile())
	b.asBefore("cleanup", before)
}
