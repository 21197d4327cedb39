// SPDX-License-Identifier: Apache-2.0

// Package incoming serves the moves of containers to this node. Other nodes call it over
// mutual TLS, and their calls are told to the engine (migrate.Local), if the manager has
// permitted them.
//
//	server.go     what a Server is made of
//	serve.go      the calls, and by which permission each is answered
//	limits.go     how many calls, and how old the list of members may be
//	statement.go  what the source has stated about a part
//	guests.go     the records of copies, on the disk
//	task.go       one step or part of a copy at a time
//	settle.go     settings of a copy that was confirmed; copies that their sources abandoned
//	audit.go      what other nodes did, in the audit log
//
// What may be done next with a copy is decided by package guest, how many connections and
// calls a node may have by package gate, and which node is a member by package membership.
package incoming
