// SPDX-License-Identifier: Apache-2.0

// Package usage says what the classes of a link did over a second, what each should have had,
// and why. It consists of functions of values: time comes with the counters.
//
// Between compares two snapshots of a link's counters. A class that was dropped from, or in
// which packets wait at both ends of the second, wants all that it can get; any other wants
// what it sent. With these demands the link is divided by the contract (twolevel.Divide), and
// the Division has for each class the measured rate beside the ideal one:
//
//	d := usage.Between(state, before, after) // web sent 30 of 100 Mbit/s and has a backlog
//	d.Traffic(link, id, class)               // rate 30, ideal 33.3 Mbit/s
//	d.Explain(id).Text                       // "web gets 33.3 Mbit/s of 100 Mbit/s: ..."
//
// What it does not do: read counters, or measure payload; that is package goodput's.
package usage
