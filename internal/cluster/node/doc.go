// SPDX-License-Identifier: Apache-2.0

// Package node is an agent's part in a cluster: it joins, says that it lives and what
// its containers use, migrates what the manager orders, and asks for a place where a
// min does not fit here.
//
//	node.go       what a node is made of and runs
//	member.go     a machine that is to be a node, before it has joined
//	connected.go  the bus: heartbeats and profiles out
//	orders.go     what the manager orders
//	sequence.go   which orders are older than one that came
//	settings.go   policies that the manager orders, or that come with a container
//	outbox.go     what has been said and not been taken by the bus yet
//	place.go      api.Agent with a manager behind it
//
// The packages below it have the parts that a node puts together:
//
//	membership    the certificate, the list of members, whom this node believes
//	outgoing      moves that this node makes as their source, each with its journal
//	incoming      moves to this node; its rules are package guest's, its limits package gate's
//	images        the manager's image registry, for this node's engine
//	profiler      what the containers here use
//
// Nothing here keeps the agent from steering its links: the node tries a manager
// that is away again, and its messages wait meanwhile.
//
// An order is obeyed if the manager signed it for this node, once however often it
// comes, and not begun after its deadline. What became of it is kept in a file for
// each, so that an order that comes again is answered with the same report.
package node
