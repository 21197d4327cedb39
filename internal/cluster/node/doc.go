// SPDX-License-Identifier: Apache-2.0

// Package node is an agent's part in a cluster: it joins, says that it lives and what
// its containers use, migrates what the manager orders, and asks for a place where a
// min does not fit here. Whom it believes is package membership's, its profiles are
// package profiler's, and what its engine gets of the manager's images is package images'.
//
//	node.go       what a node is made of and runs
//	connected.go  the bus: heartbeats and profiles out
//	orders.go     what the manager orders
//	outbox.go     what has been said and not been taken by the bus yet
//	moves.go      migrations (package migrate), each with its journal
//	serve.go      what other nodes may do here for a migration, by mutual TLS
//	remote.go     the same from the other side: another machine as a migrate.Node
//	place.go      api.Agent with a manager behind it
//
// Nothing here keeps the agent from steering its links: the node tries a manager
// that is away again, and its messages wait meanwhile.
//
// An order is obeyed if the manager signed it for this node, once however often it
// comes, and not begun after its deadline. What became of it is kept in a file for
// each, so that an order that comes again is answered with the same report.
package node
