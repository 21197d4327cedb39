// SPDX-License-Identifier: Apache-2.0

// Package moves judges moves of containers, and the places that the manager seeks by them
// for mins which a node had to refuse. All of it is functions of values: the record of a
// move, a report about it, the time.
//
//	waiting ──► ordered ──► running ──► done, rolled-back, refused, failed
//	   │           │           │
//	cancelled   expired       lost      the manager's own ends
//
// The source of a move decides how it ends, by its journal. The manager's own ends only
// say that it waits no longer: a report of the source about the end is taken in whenever
// it comes (Move.Report), and the first one of it stands.
//
// Moves begin in an order (Queue), beside each other as far as they may (Ready), and no
// node takes part in more than its share of them (Slots).
//
// Example: a move was ordered at 10:00 and its source reports the step "send checkpoint"
// with 1 GB at 10:01. A report of 1 GB at 10:10 says nothing new; at 10:46 the move has
// not come further for 45 minutes and Overdue ends it as lost. At 10:50 its source reports
// that it is done: it is done.
//
// What it does not do: send anything, write anything down, or know what nodes run.
package moves
