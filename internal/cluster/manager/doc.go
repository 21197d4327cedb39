// SPDX-License-Identifier: Apache-2.0

// Package manager is the manager of a cluster: it knows the nodes, listens to their
// heartbeats and profiles, decides which container should run where, and orders the
// moves.
//
//	M, H ──► intake ──► nodes ─► problem ─► optimize ─► moves ──► dispatch ──► L
//	R    ──► intake ──► moves, places                                  (package bus)
//	HTTPS ─► join, places                 unix socket ─► api.Manager
//
// One lock guards all state; decisions are functions of values in files of their own
// (choose.go, problem.go). What must outlive the process is in one database file
// (bbolt), written before it is acted upon:
//
//	nodes     who belongs to the cluster, with the key that its messages are signed by
//	tokens    by which nodes join; only a hash of the secret
//	moves     each migration, from the moment it is decided until after its end
//	places    mins that a node had to refuse, and what the manager does about them
//	applies   policies that are to be put into force on a node
//	orders    messages that the bus has not taken yet
//
// Heartbeats and profiles are kept in memory: after a restart they are there again
// within seconds, and nothing is planned before.
//
// An order is sent until it was reported on: the bus keeps it for a node that is
// away, the database for a bus that is, and after remindAfter without a word from the
// node it is sent again. The node obeys it once (package node).
package manager
