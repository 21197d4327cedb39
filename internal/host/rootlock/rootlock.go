// SPDX-License-Identifier: Apache-2.0

// Package rootlock says how many packets a second one root qdisc carries. A root qdisc has one
// lock, which a CPU holds while it enqueues or dequeues a packet: however many CPUs send, this
// serial part of each packet's way runs on one CPU at a time. So
//
//	packets a second <= instructions a second of a CPU / serial instructions of a packet
//
// Example: with 938 serial instructions and a CPU of 3 GHz that is 3.2 million packets a
// second, or 38.7 Gbit/s in frames of 1,514 bytes:
//
//	rootlock.Of(plan.BackendBPF, 3e9).Rate(policy.FullFrame)
//
// The lab counts the instructions (cost.json, which make figures writes): what the scheduler
// adds to a packet while nothing waits, less the marking, which senders do outside of the lock.
// A cycle counts as an instruction. Neither the driver nor the way of a cache line between
// two CPUs is in it, nor what packets that wait cost besides, so that a link carries this at
// most. docs/qdisc.md has the figures beside those of others.
package rootlock

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"weir/internal/core/policy"
)

// PacketCost is what the lab counted of a packet of 64 bytes while nothing waits.
type PacketCost struct {
	Instructions float64 `json:"instructions"` // that Weir's BPF qdisc adds, marking included
	// Serial has the instructions under the root qdisc's lock, by backend.
	Serial map[string]float64 `json:"serial"`
	Kernel string             `json:"kernel"` // as uname -r prints it
	Commit string             `json:"commit"`
	Date   string             `json:"date"`
}

// String returns the cost in a sentence, with the commit, the kernel and the date of its
// measurement.
func (c PacketCost) String() string {
	return fmt.Sprintf("the lab counted %.0f instructions that Weir adds to a packet (commit %.12s, Linux %s, %s)", c.Instructions, c.Commit, c.Kernel, c.Date)
}

// costFile is made from docs/papers/data by make figures; make check fails where they
// disagree.
//
//go:embed cost.json
var costFile []byte

// Counted is the recorded cost.
var Counted = func() (c PacketCost) {
	if err := json.Unmarshal(costFile, &c); err != nil {
		panic(fmt.Sprintf("internal/host/rootlock/cost.json: %v; run make figures", err))
	}
	return c
}()

// PacketCapacity bounds what one root qdisc carries.
type PacketCapacity struct {
	Serial float64 // instructions of each packet under the lock
	Hz     uint64  // of a CPU; 0 = not known
}

// Of returns the limit of a backend's root qdisc on a CPU with that clock.
func Of(backend string, hz uint64) PacketCapacity { return PacketCapacity{Counted.Serial[backend], hz} }

// Packets returns the packets a second that the qdisc carries at most, +Inf if the limit is
// not known.
func (l PacketCapacity) Packets() float64 {
	if l.Serial <= 0 || l.Hz == 0 {
		return math.Inf(1)
	}
	return float64(l.Hz) / l.Serial
}

// Rate returns the bits a second that it carries at most in packets of that many bytes on
// the wire, policy.Unlimited if the limit is not known.
func (l PacketCapacity) Rate(bytes int) policy.Rate {
	bps := l.Packets() * float64(bytes) * 8
	if bps >= float64(policy.Unlimited) {
		return policy.Unlimited
	}
	return policy.Rate(bps)
}

// Link is a link that Weir steers or would steer.
type Link struct {
	Device    string
	Direction policy.Direction // "" = egress
	Capacity  policy.Rate
	// Root is the root qdisc that the kernel had or has without Weir, e.g. "mq with fq"; ""
	// if that is not known. Queues is the number of its transmit queues, each with a lock
	// of its own; 0 or 1: it has one lock too.
	Root    string
	Queues  int
	Steered bool // Weir's qdisc is there already, in place of Root
}

// Warning returns what is to be said of a link whose capacity is above the limit in full
// frames, and what to do about it; both are empty if it is not.
func (l PacketCapacity) Warning(link Link) (seen, remedy string) {
	most := l.Rate(policy.FullFrame)
	if link.Capacity <= most {
		return "", ""
	}
	packets := func(bytes int) string { return count(float64(link.Capacity) / 8 / float64(bytes)) }
	seen = fmt.Sprintf("%s in full frames is %s packets a second, and one root qdisc carries %s at most (%s): a CPU of this host has %.2g GHz, and %.0f instructions of each packet are under one lock",
		link.Capacity, packets(policy.FullFrame), count(l.Packets()), policy.Approx(float64(most)), float64(l.Hz)/1e9, l.Serial)
	offload, option, key := "segmentation offload", "tso", "egress"
	if link.Direction == policy.Ingress {
		offload, option, key = "receive offload", "gro", "ingress"
	}
	remedies := []string{
		fmt.Sprintf("keep %s on (ethtool -K %s %s on), which makes it %s packets of 64 KiB", offload, link.Device, option, packets(largest)),
		fmt.Sprintf("write %s: %dmbit", key, most/1e6),
	}
	if link.Queues > 1 {
		when := "has"
		if link.Steered {
			when = "was there before and has"
		}
		seen += fmt.Sprintf("; %s %s a lock for each of %d transmit queues", link.Root, when, link.Queues)
		back := "leave the link to " + link.Root
		if link.Steered {
			back = "take the link out of weir.yaml, which gives it back to " + link.Root
		}
		remedies = append(remedies, back)
	}
	return seen, strings.Join(remedies, ", or ")
}

// largest is the size of a packet with offload, bytes.
const largest = 64 << 10

// count writes a number of packets with three digits: 2.06 million, 191 thousand.
func count(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.3g million", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.3g thousand", n/1e3)
	}
	return fmt.Sprintf("%.0f", n)
}
