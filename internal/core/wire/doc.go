// SPDX-License-Identifier: Apache-2.0

// Package wire holds the messages of a cluster: what crosses the bus between the
// agents of the nodes and their manager. It is values and their encoding: no
// clock, no I/O.
//
//	subject    from -> to         messages
//	M.<node>   node -> manager    Profile: what the node and its containers use
//	H.<node>   node -> manager    Heartbeat: the node lives, and what it can do
//	R.<node>   node -> manager    MoveReport, Arrived, ApplyReport, PlaceRequest
//	L.<node>   manager -> node    Move, Cancel, Apply
//
// M and L are the topics of the C-Balancer paper (there M_<node>, L_<node>; so they
// are called on Kafka, see package bus).
//
// A message travels in an envelope of JSON, for example on L.a
//
//	{"v":2,"kind":"move","from":"manager","subject":"L.a","id":"m-7f2c",
//	 "at":"2026-03-01T12:00:00Z","body":{"id":"m-7f2c","container":"web",...},"sig":"..."}
//
// whose signature (Ed25519, by the key of the sender's certificate) covers all of
// it, the subject included: a member that writes to a subject that is not its own,
// on a bus that allows it, is found out, and so is a message that is repeated
// elsewhere. The same message may arrive twice; its ID says so.
//
// Two kinds travel beside the bus: a Grant, by which the manager permits one copy on
// one target, and Statements, by which the source says what it has sent (grant.go).
//
// Version is raised by a change that an older reader would misunderstand; fields
// that may be ignored are added without. Every rate is in wire bits per second,
// every size in bytes, every time in UTC.
package wire
