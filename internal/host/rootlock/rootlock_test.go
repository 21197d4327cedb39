// SPDX-License-Identifier: Apache-2.0

package rootlock

import (
	"math"
	"strings"
	"testing"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// The record has what the limits are made of.
func TestCounted(t *testing.T) {
	c := Counted
	if c.Instructions < 1 || c.Kernel == "" || c.Date == "" || len(c.Commit) != 40 {
		t.Errorf("record %+v", c)
	}
	bpf, tc := c.Serial[plan.BackendBPF], c.Serial[plan.BackendTC]
	if bpf <= 0 || bpf >= c.Instructions || tc <= 0 {
		t.Errorf("serial parts %v of %.0f instructions: marking is outside of the lock", c.Serial, c.Instructions)
	}
	if of := Of(plan.BackendTC, 3e9); of.Serial != tc || of.Hz != 3e9 {
		t.Errorf("limit %+v", of)
	}
}

func TestLimit(t *testing.T) {
	for _, c := range []struct {
		name    string
		limit   PacketCapacity
		packets float64
		full    policy.Rate // in full frames
		small   policy.Rate // in packets of 64 bytes
	}{
		{"two million packets", PacketCapacity{1000, 2e9}, 2e6, 24.224e9, 1.024e9},
		{"HTB's is half of that", PacketCapacity{2000, 2e9}, 1e6, 12.112e9, 512e6},
		{"a faster CPU", PacketCapacity{1000, 4e9}, 4e6, 48.448e9, 2.048e9},
		{"a CPU that does not say its clock", PacketCapacity{1000, 0}, math.Inf(1), policy.Unlimited, policy.Unlimited},
		{"a backend that was not measured", PacketCapacity{0, 2e9}, math.Inf(1), policy.Unlimited, policy.Unlimited},
	} {
		if p := c.limit.Packets(); p != c.packets {
			t.Errorf("%s: %.0f packets a second, want %.0f", c.name, p, c.packets)
		}
		if full, small := c.limit.Rate(policy.FullFrame), c.limit.Rate(64); full != c.full || small != c.small {
			t.Errorf("%s: %s in full frames and %s in small packets, want %s and %s", c.name, full, small, c.full, c.small)
		}
	}
}

func TestWarning(t *testing.T) {
	limit := PacketCapacity{Serial: 1000, Hz: 2e9} // 24.2 Gbit/s in full frames
	mq := Link{Device: "eth0", Capacity: 100e9, Root: "mq with fq", Queues: 8}
	with := func(change func(*Link)) Link {
		l := mq
		change(&l)
		return l
	}
	const over = "100 Gbit/s in full frames is 8.26 million packets a second, and one root qdisc carries 2 million at most (24.2 Gbit/s): " +
		"a CPU of this host has 2 GHz, and 1000 instructions of each packet are under one lock"
	const offload = "keep segmentation offload on (ethtool -K eth0 tso on), which makes it 191 thousand packets of 64 KiB, or write egress: 24224mbit"
	for _, c := range []struct {
		name         string
		limit        PacketCapacity
		link         Link
		seen, remedy string
	}{
		{"a link that the qdisc carries", limit, with(func(l *Link) { l.Capacity = 24e9 }), "", ""},
		{"just as much", limit, with(func(l *Link) { l.Capacity = 24.224e9 }), "", ""},
		{"a bit more", limit, Link{Device: "eth0", Capacity: 24.224e9 + 1}, strings.Replace(strings.Replace(over, "100 Gbit/s", "24.224000001 Gbit/s", 1), "8.26", "2", 1),
			strings.Replace(offload, "191", "46.2", 1)},
		{"the limit is not known", PacketCapacity{}, mq, "", ""},
		{"one queue", limit, with(func(l *Link) { l.Root, l.Queues = "fq_codel", 0 }), over, offload},
		{"many queues", limit, mq, over + "; mq with fq has a lock for each of 8 transmit queues", offload + ", or leave the link to mq with fq"},
		{"many queues before Weir came", limit, with(func(l *Link) { l.Steered = true }),
			over + "; mq with fq was there before and has a lock for each of 8 transmit queues",
			offload + ", or take the link out of weir.yaml, which gives it back to mq with fq"},
		{"ingress", limit, Link{Device: "eth0", Direction: policy.Ingress, Capacity: 100e9, Steered: true}, over,
			"keep receive offload on (ethtool -K eth0 gro on), which makes it 191 thousand packets of 64 KiB, or write ingress: 24224mbit"},
	} {
		if seen, remedy := c.limit.Warning(c.link); seen != c.seen || remedy != c.remedy {
			t.Errorf("%s:\n got %q\n     %q\nwant %q\n     %q", c.name, seen, remedy, c.seen, c.remedy)
		}
	}
}

func TestClockOfCPU(t *testing.T) {
	const info = "processor\t: 0\ncpu MHz\t\t: 2599.998\nprocessor\t: 1\ncpu MHz\t\t: 3100.5\n"
	if hz, err := clockIn(strings.NewReader(info)); err != nil || hz != 3100500000 {
		t.Errorf("%d, %v", hz, err)
	}
	if hz, err := clockIn(strings.NewReader("processor\t: 0\nBogoMIPS\t: 50.00\n")); err == nil {
		t.Errorf("%d of a processor that does not say it", hz)
	}
}
