// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/core/policy"
)

// ripple is one kind of change of the link, and what it cost each time.
type ripple struct {
	name   string
	do     func()
	graft  bool // it puts another qdisc in the root's place
	beside bool // it is the kernel's own, to compare with
	shared bool // meanwhile the stream may share a FIFO with all others
	lost   []uint64
	waited []uint64 // packets in the root qdisc just before
}

// losses runs changes under load and counts what a stream below its share loses meanwhile.
type losses struct {
	*bed
	a       *agent
	stream  flow
	ripples []*ripple
	root    int // handle of the root qdisc without Weir, 1 or 2
}

// former puts the root qdisc of a link without Weir anew: HTB, in which the stream has a class of
// its own and the rest a FIFO, in which packets wait.
func (l *losses) former() {
	l.t.Helper()
	l.root = 3 - l.root // of the same handle it would be the same one
	l.host.run(fmt.Sprintf("tc qdisc replace dev up0 root handle %d: htb default 2", l.root))
	l.below()
}

// below makes what is below it. The stream has its class before there is a FIFO, whose replacement
// drops what waits in it.
func (l *losses) below() {
	l.t.Helper()
	for _, command := range []string{
		"tc class add dev up0 parent %[1]d: classid %[1]d:9 htb rate %[2]dbit",
		"tc class add dev up0 parent %[1]d:9 classid %[1]d:1 htb rate %[3]dbit ceil %[2]dbit",
		"tc filter add dev up0 parent %[1]d: protocol ip prio 1 u32 match ip dport %[4]d 0xffff flowid %[1]d:1",
		"tc class add dev up0 parent %[1]d:9 classid %[1]d:2 htb rate %[3]dbit ceil %[2]dbit",
		"tc qdisc add dev up0 parent %[1]d:2 handle 7: pfifo limit 80",
	} {
		l.host.run(fmt.Sprintf(command, l.root, l.capacity, l.capacity/2, voicePort))
	}
}

// waiting returns how many packets wait at the link.
func (l *losses) waiting() (n uint64) {
	l.t.Helper()
	var list []struct {
		Root    bool   `json:"root"`
		Packets uint64 `json:"qlen"`
	}
	if err := json.Unmarshal([]byte(l.host.run("tc -s -j qdisc show dev up0")), &list); err != nil {
		l.t.Fatal(err)
	}
	for _, q := range list {
		if q.Root {
			n += q.Packets
		}
	}
	return n
}

// missing returns how many of the stream's packets have not arrived though later ones have.
func (l *losses) missing() uint64 {
	l.t.Helper()
	a := l.arrivalsOf([]flow{l.stream})[0]
	return a.Next - a.Packets
}

// run makes each change once, in order.
func (l *losses) run() {
	for _, r := range l.ripples {
		r.waited = append(r.waited, l.waiting())
		before := l.missing()
		r.do()
		<-time.After(500 * time.Millisecond)
		r.lost = append(r.lost, l.missing()-before)
	}
}

// reloaded waits until the agent has put a new weir.yaml into force.
func (l *losses) reloaded(scheduler string, capacity policy.Rate) {
	l.t.Helper()
	l.capacity = capacity
	settings := ", force: true"
	if scheduler != "" {
		settings += ", scheduler: " + scheduler
	}
	l.configureLinks(settings, "accept_gaps: true\n")
	await(l.t, time.Minute, "the new weir.yaml in force", func() error {
		status, err := l.a.Status(context.Background())
		if err != nil {
			return err
		}
		link := status.Links[0]
		if link.CapacityBps != uint64(capacity) || (onBPF() && scheduler != "" && link.Scheduler != scheduler) || link.Error != "" {
			return fmt.Errorf("it is %+v", link)
		}
		return nil
	})
}

// restart ends the agent and starts it again.
func (l *losses) restart() {
	l.a.kill()
	l.begin()
}

func (l *losses) begin() {
	l.a = l.startWithin(time.Minute)
	l.steered(l.a)
}

// changes are the kernel's own changes of qdisc, and Weir's.
func (l *losses) changes() {
	capacity, other := l.capacity, "fq_codel"
	if err := l.host.do(exec.Command("tc", "qdisc", "add", "dev", "lo", "root", other).Run); err != nil {
		other = "bfifo" // of a kernel without it
	}
	l.ripples = []*ripple{
		{name: "tc: the root replaced", beside: true, graft: true, do: l.former},
		{name: "tc: FIFO to " + other, beside: true, do: func() {
			l.host.run(fmt.Sprintf("tc qdisc replace dev up0 parent %d:2 %s", l.root, other))
		}},
		{name: "tc: " + other + " to FIFO", beside: true, do: func() {
			l.host.run(fmt.Sprintf("tc qdisc replace dev up0 parent %d:2 pfifo limit 80", l.root))
		}},
		// Until the agent knows its workloads they share the host's class, a FIFO on a
		// kernel without fq_codel.
		{name: "take-over", graft: true, shared: other == "bfifo", do: l.begin},
		{name: "policy", do: func() { l.weir("set", "w1", "--weight", "3"); l.weir("set", "w3", "--min", "20%") }},
		{name: "rate", do: func() { l.reloaded("", capacity*9/10); l.reloaded("", capacity) }},
		{name: "restart of the agent", do: l.restart},
	}
	if onBPF() {
		l.ripples = append(l.ripples,
			&ripple{name: "discipline", do: func() { l.weir("set", "w1", "--discipline", "fifo"); l.weir("set", "w3", "--discipline", "fifo") }},
			&ripple{name: "scheduler", graft: true, do: func() { l.reloaded("qcon", capacity) }},
			&ripple{name: "scheduler back", graft: true, do: func() { l.reloaded("fair", capacity) }},
			&ripple{name: "upgrade", graft: true, do: func() { l.a.kill(); l.anotherBuild(); l.begin() }})
	}
	l.ripples = append(l.ripples, &ripple{name: "cleanup", graft: true, do: func() {
		l.a.stop()
		l.weir("cleanup", "--config", l.configFile())
		l.below() // the root alone comes back
	}})
}

const streamBurst = 8 // packets that the stream sends at once

// Under load, a change of qdisc by Weir costs a stream below its share no more than tc's own change
// of the root qdisc in the same run, or the burst of it that waits in the qdisc that goes; any
// other change none.
func TestChangesLoseNoMoreThanTc(t *testing.T) {
	rounds := 3
	switch {
	case *long:
		rounds = 10
	case emulated(): // where a round is the same each time, and takes minutes
		rounds = 1
	}
	l := &losses{bed: newBed(t, 3, 1)}
	l.configureLinks(", force: true", "accept_gaps: true\n")
	l.root = 1
	l.former()
	l.tcps(0, 1, 4)
	l.flood(0, 2, 0.7)
	l.stream = l.offer(offer{from: 3, port: voicePort, share: 0.05, size: 100, burst: streamBurst})
	l.changes()
	<-time.After(time.Second)
	for range rounds {
		l.run()
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-24s %6s %22s %s\n", "change", "times", "packets that wait", "of the stream lost")
	var root uint64
	for _, r := range l.ripples {
		if r.beside && r.graft {
			root = slices.Max(r.lost)
		}
		fmt.Fprintf(&table, "%-24s %6d %22s %s\n", r.name, len(r.lost), fmt.Sprint(r.waited), fmt.Sprint(r.lost))
	}
	t.Logf("a stream of 5 %% of a link of %v that is full:\n%s", l.capacity, &table)
	for _, r := range l.ripples {
		// A busy machine may stop the link for any time in one of the rounds, tc's own
		// changes as well.
		lost, most := slices.Sorted(slices.Values(r.lost))[len(r.lost)/2], uint64(0)
		if r.graft {
			most = max(root, streamBurst) // which wait in the queue that goes
		}
		if !r.beside && !r.shared && lost > most {
			t.Errorf("%s costs %v packets; half of the times at most %d are to be lost", r.name, r.lost, most)
		}
	}
}
