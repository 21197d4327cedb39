// SPDX-License-Identifier: Apache-2.0

// Package policy holds the nouns of Weir and their checks: rate, weight, min,
// max, and the contract that decides who gets how much.
//
// It is pure: no clock, no I/O, no logger. A Policy is what a person asked for
// one workload; Shares is the formula that everything is measured against:
//
//	x = min(max, max(min, L * weight))
//
// with the level L such that the shares of all workloads that want to send add
// up to the link's capacity. Example: on 100 Mbit/s, weights 1, 2, 3 give 16.7,
// 33.3 and 50 Mbit/s; with a min of 30 Mbit/s for the first they become 30, 28
// and 42.
package policy

// Rate is in bits per second. Rates are wire rates unless said otherwise.
type Rate uint64

// MaxWeight is the largest weight a workload can have; 1 is the smallest and
// the default.
const MaxWeight = 10000

// Amount is a rate as a person wrote it: absolute, or a share of the link.
// The zero Amount means "none".
type Amount struct {
	Rate    Rate    // bits per second, if Percent is 0
	Percent float64 // of the link's capacity, 0 < Percent <= 100
}

// Policy is what one workload was promised.
type Policy struct {
	Weight uint32 // 1 to MaxWeight
	Min    Amount // guaranteed; none by default
	Max    Amount // ceiling; none by default
	// LimitPackets and LimitBytes bound the workload's queue; 0 = default.
	LimitPackets uint32
	LimitBytes   uint64
}

// Claim is one workload's part in a division of a link.
type Claim struct {
	Weight uint32
	Min    Rate // 0 = none
	Max    Rate // 0 = none
	Demand Rate // what it wants to send; Unlimited if it takes all it can get
}

// Unlimited is the demand of a workload that takes whatever it is given.
const Unlimited = ^Rate(0)
