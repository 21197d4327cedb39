// SPDX-License-Identifier: Apache-2.0

// Package manager is the manager of a cluster: it knows the nodes, listens to their
// heartbeats and profiles, decides which container should run where, and orders the
// moves.
//
//	M, H ──► intake ──► nodes ─► planning ─► optimize ─► moves ──► dispatch ──► L
//	R    ──► intake ──► moves, places                                  (package bus)
//	HTTPS ─► membership, places           unix socket ─► api.Manager
//
// What it decides by is in packages below it, which know neither the network nor each
// other's locks:
//
//	membership   who belongs to the cluster, and by which certificates
//	moves        what becomes of a move: reports, limits, the order, shares of nodes (pure)
//	planning     the cluster as the optimizer sees it, the automatic mode's settings (pure)
//	statedir     the folder: database, owner, snapshots
//
// One lock guards all state but that of membership, which has its own and never calls
// back. What must outlive the process is in one database (statedir.DB), written before it
// is acted upon; beside the members and their tokens:
//
//	moves     each migration, from the moment it is decided until after its end
//	places    mins that a node had to refuse, and what the manager does about them
//	applies   policies that are to be put into force on a node
//	orders    messages that the bus has not taken yet
//
// Heartbeats and profiles are kept in memory: after a restart they are there again
// within seconds, and nothing is planned before.
//
// An order is sent until it was reported on: the bus keeps it for a node that is
// away, the database for a bus that is, and after moves.RemindAfter without a word from the
// node it is sent again. The node obeys it once (package node).
package manager
