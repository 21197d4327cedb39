// SPDX-License-Identifier: Apache-2.0

// Package remote carries the calls of a migration to another process: to the agent of
// another node (packages outgoing and incoming, by HTTPS), and from the agent to the helper
// on the same machine that has the privileges which CRIU and the engine need (by a unix
// socket).
//
//	POST /v1/migrate/do
//	{"step":"freeze","order":{"move":"m-1","container":{...},"from":"a","to":"b",...}}
//
// A call is JSON of at most 1 MiB; package incoming takes much less of another node. Before
// the call of "receive" stands its length, and after it the part. The answer of "send" is the part;
// how it ended is in a trailer. A definite answer of the callee (move.Error) has status 409.
//
// A caller names a verb, a step, a part, a container and an order. The protocol has no
// room for a path or a command; the callee knows its engine by its own configuration.
//
// What it does not do: decide what a call may do. Package incoming demands the manager's
// order of other nodes. The helper's socket is root's, and the helper asks a Guard before each
// call that is about a container (package warrant).
package remote
