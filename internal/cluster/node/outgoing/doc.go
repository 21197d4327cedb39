// SPDX-License-Identifier: Apache-2.0

// Package outgoing makes the moves that the manager orders of this node, as their source.
// Each has a journal (package migrate), so that the next process goes on with what this
// one leaves, and a record, so that an order that comes again gets the same report.
//
//	moves.go     orders and reports
//	run.go       one move, from its pre-flight to its end
//	resume.go    what a former process has left
//	cancel.go    calling a move off
//	target.go    another machine as a migrate.Node
//	receipts.go  what came of each order, on the disk
//	audit.go     how moves ended, in the audit log
//
// An order is examined before it comes here: that the manager signed it for this node, and
// that it is not older than one before. What the target makes of it is package incoming's.
package outgoing
