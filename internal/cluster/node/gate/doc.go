// SPDX-License-Identifier: Apache-2.0

// Package gate bounds what other nodes may have this one do at once: connections, calls,
// and bodies that stand still. An honest node meets none of the limits; a node that wants
// to do harm gets no more than its part, and keeps no other node out.
//
//	ln := gate.Listen(tcp)                   // connections, of each member and in all
//	cfg := gate.Guard(serverTLS, isMember)
//	leave, over := calls.Enter(peer, true)   // calls, of each node and in all
//	body, end := gate.NewBody(ctx, w, r.Body, time.Minute)
//
// What a call may do is not decided here; see package incoming.
package gate
