// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/api"
)

var errMoving = errors.New("it is not as it was")

// lasting returns the output of weir get and weir group list, without the figures that
// move by themselves.
func (b *bed) lasting() string {
	b.t.Helper()
	var workloads []api.Workload
	var groups []api.Group
	for what, into := range map[string]any{"get -o json": &workloads, "group list -o json": &groups} {
		if err := json.Unmarshal([]byte(b.weir(strings.Fields(what)...)), into); err != nil {
			b.t.Fatalf("weir %s: %v", what, err)
		}
	}
	still := func(links []api.WorkloadLink) {
		for i := range links {
			l := &links[i]
			var names []api.QueueTraffic
			for _, q := range l.Queues {
				names = append(names, api.QueueTraffic{Name: q.Name, SentPackets: q.SentPackets, SentBytes: q.SentBytes})
			}
			*l = api.WorkloadLink{
				Device: l.Device, Direction: l.Direction, MinBps: l.MinBps, MaxBps: l.MaxBps,
				SentPackets: l.SentPackets, SentBytes: l.SentBytes, Queues: names,
			}
		}
	}
	for _, w := range workloads {
		still(w.Links)
	}
	for _, g := range groups {
		still(g.Links)
	}
	text, err := json.MarshalIndent([]any{workloads, groups}, "", " ")
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// An agent that starts again finds disciplines, queues, rules and groups as they
// were, says the same of them and changes nothing in the kernel, whether the one
// before was stopped or killed.
func TestInsideIsAdopted(t *testing.T) {
	needsQueues(t)
	b := newBed(t, 5, 1)
	b.configure("groups:\n  tenant-a: {weight: 2, min: 40%}\n  tenant-b: {max: 40%}\n" +
		"workloads:\n  w1: {group: tenant-a, min: 30%}\n  w2: {group: tenant-a, discipline: fifo, dscp: af21}\n" +
		"  w3:\n    discipline: cbwfq\n    aqm: 2ms/50ms\n    queues:\n" +
		"      calls: {min: 1mbit, match: [{preset: voip}], limit_packets: 50}\n" +
		"      pages: {min: 2mbit, match: [{tcp: [80, 443], dst: 10.0.0.0/8}, {dscp: cs2, src: 'fd88::/16'}]}\n" +
		"      rest:  {min: 1mbit}\n")
	a := b.start()
	b.steered(a)
	b.discipline("w1", "llq", voiceQueue, videoQueue, restQueue)
	b.discipline("host", "pq", "first: {match: [{dscp: cs6}, {queue: 3}, {mark: 0x50/0xf0}], dscp: cs6}", "rest: {}")
	b.weir("group", "set", "tenant-c", "--weight", "3", "--max", "20%")
	b.weir("set", "w4", "--group", "tenant-c", "--aqm", "off")
	b.weir("set", "w5", "--limit-packets", "100")

	// Counters too: of what was sent before.
	var flows []flow
	for _, port := range []int{voicePort, videoPort, otherPort} {
		flows = append(flows, b.handful(offer{from: 1, port: port}))
	}
	b.settle(flows...)
	settled := b.lasting()
	await(t, 10*time.Second, "counters at rest", func() error {
		<-time.After(1100 * time.Millisecond) // of the agent's sampling
		last := settled
		settled = b.lasting()
		if settled != last {
			return errMoving
		}
		return nil
	})
	was, qdisc := inventory(t, nil), b.rootQdisc(0)
	for _, how := range []struct {
		name string
		by   unix.Signal
	}{{"stopped", unix.SIGTERM}, {"killed", unix.SIGKILL}} {
		a.signal(how.by)
		a = b.start()
		b.steered(a)
		await(t, 5*time.Second, how.name+": weir get as before", func() error {
			if b.lasting() != settled {
				return errMoving
			}
			return nil
		})
		<-time.After(1500 * time.Millisecond) // what it might do a moment later
		b.unchanged(how.name, settled, b.lasting())
		if now := b.rootQdisc(0); now != qdisc {
			t.Errorf("%s: qdisc was %q, is %q", how.name, qdisc, now)
		}
		now := inventory(t, nil)
		if !slices.Equal(now.Pins, was.Pins) || len(now.Maps) > len(was.Maps) || now.Programs > was.Programs {
			t.Errorf("%s: in the kernel were %+v, are %+v", how.name, was, now)
		}
		a.stop()
		for line := range strings.Lines(a.log.String()) {
			if strings.Contains(line, "link=up0") {
				t.Errorf("%s: the next agent changed something: %s", how.name, line)
			}
		}
		a = b.start()
		b.steered(a)
	}
}
