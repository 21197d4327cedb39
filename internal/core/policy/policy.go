// SPDX-License-Identifier: Apache-2.0

// Package policy holds the nouns of Weir and their checks: rate, weight, min,
// max, and the contract that decides who gets how much.
//
// It is pure: no clock, no I/O, no logger. A Policy is the promise that a person asked
// for one workload. Divide is the formula that everything is measured against: a
// workload that has packets to send gets
//
//	x = min(max, max(min, L * weight))
//
// with the level L such that the rates of all add up to the link's
// capacity. Example: on 100 Mbit/s, weights 1, 2, 3 give 16.7, 33.3 and 50
// Mbit/s; with a min of 30 Mbit/s for the first they become 30, 28 and 42. A
// workload that wants less gets its demand, and L rises for the others. Admission
// keeps the sum of the mins within the capacity, so that L exists.
//
// # What people may write
//
// A rate is in bits per second, and of the whole frame on the wire:
//
//	20mbit 1.5gbit 800kbit 64000bit     tc's words, in any case; a space and "/s" may follow ("20 Mbit/s")
//	10mibit 512kibit                    the same by powers of two
//	20M 500k 1G 10Mi                    Kubernetes quantities (20m is refused: m is milli there)
//	2500000 2.5e6                       bits per second
//	25% 12.5%                           of the link's capacity; for min and max only
//	none, or nothing                    no min, no max
//
// Refused, with what to write instead: mbps, MB/s, kB and their like, which tc
// reads as bytes and most people as bits; rates below 1 kbit/s or above 1
// Pbit/s (the bounds that Kubernetes has for its bandwidth annotations); and
// rates finer than one bit per second. Rates are printed as "20 Mbit/s", and
// where they are to be read again as "20mbit"; both are exact.
//
// A weight is a whole number from 1, the default, to 10000.
//
// Every refusal is an *invalid.Error, which names the field, the value and the remedy,
// or, where a link has not enough left for a min, a *Refused with the numbers.
package policy

import (
	"fmt"
	"strconv"
	"time"

	"weir/internal/core/invalid"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/quota"
)

// MaxWeight is the largest weight a workload can have; 1 is the smallest and
// the default.
const MaxWeight = 10000

// Bounds of a workload's queue. The smallest holds one full Ethernet frame; with
// segmentation offload on, a single packet can be 64 KiB and needs as much.
const (
	MaxLimitPackets = 1_000_000
	MinLimitBytes   = 2048
	MaxLimitBytes   = 4 << 30
)

// Policy is the promise that Weir makes to one workload.
type Policy struct {
	Weight uint32 // 1 to MaxWeight
	Min    Amount // guaranteed; none by default
	Max    Amount // ceiling; none by default
	// Burst is how many bytes it may send above its max after it was quiet; 0 = none.
	Burst quota.Size
	// Reserve is a goodput (payload delivered, bits per second) that a controller
	// holds: the workload gets as much, and no more; none by default.
	Reserve Amount
	// LimitPackets and LimitBytes bound the workload's queue; 0 = default.
	LimitPackets uint32
	LimitBytes   uint64
	// Discipline orders the workload's own packets; "" = sfq.
	Discipline discipline.Name
	Queues     []Queue // of pq, cbwfq and llq
	AQM        discipline.AQM
	Isolation  discipline.Isolation // of sfq, and of the queue that takes the rest
	DSCP       *uint8               // written into every packet without one of its queue; nil = left as it is
	Group      string               // the group that the workload is in, "" = none
	// Zones is what differs in single zones of a link, see InZone.
	Zones []Zoned
	// Quota is how much it may move in a time, and what then; nil = as much as it likes.
	Quota *quota.Quota
	// When is what differs at times, see At; of what is in force at a moment it stays a part.
	When []Scheduled
	// Ingress is the promise for packets that come to the workload (download); nil =
	// the default. All other fields are about egress. It has no Group and no Ingress.
	Ingress *Policy
}

// Default returns the policy of a workload that neither labels, weir.yaml nor users
// give one: weight 1, no min, no max.
func Default() Policy { return Policy{Weight: 1} }

// Check reports the first mistake in p as an *invalid.Error. Whether a min of 25 % is
// above a max of 20 Mbit/s depends on the link; Sharer finds that.
func (p Policy) Check() error {
	if p.Weight < 1 || p.Weight > MaxWeight {
		return weightError(strconv.FormatUint(uint64(p.Weight), 10), "out of range")
	}
	if err := p.Min.Check(); err != nil {
		return invalid.InField("min", err)
	}
	if err := p.Max.Check(); err != nil {
		return invalid.InField("max", err)
	}
	if err := p.Reserve.Check(); err != nil {
		return invalid.InField("reserve", err)
	}
	sameKind := (p.Min.Percent != 0) == (p.Max.Percent != 0)
	if !p.Min.None() && !p.Max.None() && sameKind &&
		(p.Min.Rate > p.Max.Rate || p.Min.Percent > p.Max.Percent) {
		return minAboveMax(p.Min, p.Min.String(), p.Max.String())
	}
	if p.Burst != 0 && p.Max.None() {
		return p.burstError("there is no max that it would be above", "give a max, or take the burst away")
	}
	if err := p.checkLimits(); err != nil {
		return err
	}
	if err := p.checkQueues(); err != nil {
		return err
	}
	if err := p.checkWhen(); err != nil {
		return err
	}
	if err := p.checkQuota(); err != nil {
		return err
	}
	if err := p.checkZones(); err != nil {
		return err
	}
	return p.checkIngress()
}

// maxBurst is how long a max may take to carry a burst. It is as long until a burst that is
// used up is there again.
const maxBurst = 10 * time.Minute

func (p Policy) burstError(msg, remedy string) error {
	return &invalid.Error{Field: "burst", Value: writeBurst(p.Burst), Msg: msg, Remedy: remedy}
}

func (p Policy) checkLimits() error {
	if err := checkLimitPackets("limit_packets", p.LimitPackets); err != nil {
		return err
	}
	if p.LimitBytes != 0 && (p.LimitBytes < MinLimitBytes || p.LimitBytes > MaxLimitBytes) {
		msg := "less than one full frame"
		if p.LimitBytes > MaxLimitBytes {
			msg = "more than 4 GiB"
		}
		return &invalid.Error{
			Field: "limit_bytes", Value: strconv.FormatUint(p.LimitBytes, 10), Msg: msg,
			Remedy: fmt.Sprintf("write %d to %d, or 0 for the default", MinLimitBytes, uint64(MaxLimitBytes)),
		}
	}
	return nil
}

func checkLimitPackets(field string, packets uint32) error {
	if packets <= MaxLimitPackets {
		return nil
	}
	return &invalid.Error{
		Field: field, Value: strconv.FormatUint(uint64(packets), 10),
		Msg:    "more packets than a link's queue can hold",
		Remedy: fmt.Sprintf("write %d or less, or 0 for the default", MaxLimitPackets),
	}
}

// Sharer returns what a workload with p is on a link of this capacity that adds nothing to its
// packets; see SharerOn.
func (p Policy) Sharer(capacity Rate) (Sharer, error) { return p.SharerOn(capacity, 0) }

// SharerOn returns what a workload with p is on a link of this capacity and overhead (bytes
// added to each packet), wanting all it can get. A reservation counts as a min of what it takes
// on the wire. The error, an *invalid.Error, is p's own mistake, or on this very link a min
// or a reservation above the max, or queues that ask for more than the workload
// has; in the last case the sharer is right but for them.
func (p Policy) SharerOn(capacity Rate, overhead int) (Sharer, error) {
	if err := p.Check(); err != nil {
		return Sharer{}, err
	}
	c := Sharer{Weight: p.Weight, Min: p.Min.Of(capacity), Max: p.Max.Of(capacity), Demand: Unlimited}
	if c.Max != 0 && c.Min > c.Max {
		return Sharer{}, minAboveMax(p.Min, p.Min.on(capacity), p.Max.on(capacity))
	}
	if most := quota.Size(float64(c.Max) / 8 * maxBurst.Seconds()); p.Burst > most {
		return Sharer{}, p.burstError(fmt.Sprintf("more than a max of %s carries in %s: no limit any more", p.Max.on(capacity), maxBurst),
			fmt.Sprintf("write %d or less", most))
	}
	if err := p.checkReserve(capacity, overhead); err != nil {
		return Sharer{}, err
	}
	err := p.checkQueueSum(capacity, overhead, c)
	c.Min = p.Floor(capacity, overhead)
	return c, err
}

func minAboveMax(value Amount, low, high string) error {
	return &invalid.Error{
		Field: "min", Value: value.Compact(),
		Msg:    fmt.Sprintf("%s is above the max, %s", low, high),
		Remedy: "lower min or raise max",
	}
}
