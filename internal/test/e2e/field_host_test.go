// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/core/policy"
)

// A host whose workloads fill the link, with weights of 10,000 beside its own 1, finds its
// neighbours anew and gets answers: DHCP, router solicitations and keepalives of routing are as
// small and as rare.
func TestHostBesideFloods(t *testing.T) {
	b := newBed(t, 2, 1)
	b.hostSends()
	b.configure("workloads:\n  w1: {weight: 10000}\n  w2: {weight: 10000}\n")
	b.steered(b.start())
	b.flood(0, 1, 1.2)
	b.flood(0, 2, 1.2)
	b.warmUp()
	b.full(0, time.Second)
	b.host.run("ip neigh del " + serverAt(0).ip.String() + " dev br0")
	b.srv.run("ip neigh del " + hostAt().ip.String() + " dev eth0")
	times := b.host.pinged("-c 40 -i 0.2 -W 5", serverAt(0))
	t.Logf("the first answer, with ARP, after %.1f ms, the others within %.1f", times[0], slowest(times[1:]))
	if len(times) < 40 || slowest(times) > 500 { // its share is a packet in 0.6 s, and each is the only one that waits
		t.Errorf("%d of 40 answers, after up to %.1f ms", len(times), slowest(times))
	}
}

// pinged pings an address and returns the round trips, in ms.
func (s *space) pinged(options string, to endpoint) (ms []float64) {
	s.t.Helper()
	out := s.run("ping " + options + " " + to.ip.String())
	for _, match := range regexp.MustCompile(`time=([0-9.]+) ms`).FindAllStringSubmatch(out, -1) {
		value, err := strconv.ParseFloat(match[1], 64)
		s.must("read ping", err)
		ms = append(ms, value)
	}
	if len(ms) == 0 {
		s.t.Fatalf("no answer: %s", out)
	}
	return ms
}

func slowest(ms []float64) (longest float64) {
	for _, v := range ms {
		longest = max(longest, v)
	}
	return longest
}

// The address of a workload that fills its own max of 1 Mbit/s is resolved at once: its answers to
// ARP go before its own flood.
func TestNeighboursOfALimitedWorkload(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("workloads:\n  w1: {max: 1mbit}\n")
	a := b.start()
	b.steered(a)
	if strings.Contains(a.log.String(), "leaf=pfifo") {
		t.Skip("skipped: this kernel has no fq_codel and no sfq")
	}
	b.flood(0, 1, 0.2)
	b.warmUp()
	for range 20 {
		b.srv.run("ip neigh del " + workloadAt(0, 1).ip.String() + " dev eth0")
		if ms := b.srv.pinged("-c 1 -W 5", workloadAt(0, 1)); ms[0] > 100 {
			t.Errorf("an answer comes after %.1f ms, with ARP", ms[0])
		}
	}
}

// Addresses and routes of the link come and go a thousand times: nothing in the kernel changes,
// nothing is logged, the shares stay, and the agent takes little CPU time of it.
func TestAddressesOfALinkChange(t *testing.T) {
	b := newBed(t, 2, 1)
	b.configure("workloads:\n  w2: {weight: 3}\n")
	a := b.start()
	b.steered(a)
	b.flood(0, 1, 0.6)
	b.flood(0, 2, 0.9)
	b.warmUp()
	qdisc, logged, used := b.rootQdisc(0), len(a.log.String()), a.ticks()
	began := time.Now()
	const changes = 1000
	for n := range changes / 4 {
		address := fmt.Sprintf("10.77.%d.%d/32", n/250, n%250+1)
		b.host.run("ip addr add " + address + " dev up0")
		b.host.run("ip route add 10.78.0.0/16 dev up0 src " + strings.TrimSuffix(address, "/32"))
		b.host.run("ip route del 10.78.0.0/16 dev up0")
		b.host.run("ip addr del " + address + " dev up0")
	}
	took, ticks := time.Since(began), a.ticks()-used
	t.Logf("%d changes in %v take %d ms of the agent's CPU time", changes, took, 10*ticks)
	if now := b.rootQdisc(0); now != qdisc {
		t.Errorf("the root qdisc was %q, is %q", qdisc, now)
	}
	if text := a.log.String()[logged:]; text != "" {
		t.Errorf("the agent logs\n%s", text)
	}
	b.same("afterwards", b.full(0, time.Second), b.ideal(policy.Policy{Weight: 1}, policy.Policy{Weight: 3}), unchanged)
	if limit := int(took.Seconds()*5) + changes/20; ticks > limit { // in 1/100 s: 5 % of a CPU, and half a millisecond of each
		t.Errorf("the agent took %d ms of CPU time, want at most %d", 10*ticks, 10*limit)
	}
}

// ticks returns the CPU time of the agent in 1/100 s.
func (a *agent) ticks() (n int) {
	a.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.pid()))
	if err != nil {
		a.t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	for _, field := range fields[12:14] { // utime and stime, from the field after the name
		ticks, err := strconv.Atoi(field)
		if err != nil {
			a.t.Fatal(err)
		}
		n += ticks
	}
	return n
}

// A second interface that a running workload gets is its own within a second.
func TestSecondInterfaceOfARunningWorkload(t *testing.T) {
	b := newBed(t, 1, 1)
	b.attach(b.nets[0].uplink, "name: w1, netns: w1")
	a := b.start()
	b.steered(a)
	b.counted(a, b.boxes[0], "w1")
	second := workloadAt(0, 77)
	b.host.plug(b.nets[0].bridge, "second", b.boxes[0], "eth1", second)
	await(t, time.Second, "the second interface", func() error {
		if w := a.workload("w1"); len(w.Devices) != 2 || w.State != "active" {
			return fmt.Errorf("%s with %v: %s", w.State, w.Devices, w.Note)
		}
		return nil
	})
	b.boxes[0].run("ip link set eth0 down")
	b.boxes[0].run("ip link set eth1 up")
	b.boxes[0].knows("eth1", serverAt(0))
	b.srv.knows("eth0", second)
	await(t, 5*time.Second, "the second interface is taken", func() error { return b.takenAt("second") })
	b.counted(a, b.boxes[0], "w1")
}
