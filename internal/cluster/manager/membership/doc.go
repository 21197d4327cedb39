// SPDX-License-Identifier: Apache-2.0

// Package membership records who belongs to a cluster and whom its members may trust: the
// authority, the manager's own certificate, the nodes with their keys, the tokens by which
// nodes join.
//
//	node ──► token ──► Join ──► certificate        a member, whose key is in the record
//	node ──► key   ──► Renew ─► certificate        the same key, a later end
//	node ──► List ───► names and keys of all       signed, not older than wire.MembersFresh
//
// A node is known by the key that it joined by: its certificate, its messages and its
// requests for renewals are all signed by it. A member whose certificate has ended is
// still a member; one that was removed is none, whatever certificate it shows (Admit).
//
// For example, a token for two nodes, made at 10:00:
//
//	10:05  node a joins: certificate of a until its end, the list has sequence n+1
//	10:06  node b joins: n+2; the token is used up
//	10:07  node c is refused; so is another machine that calls itself a
//	11:00  a is removed: n+3, and all members learn it within seconds
//
// One lock guards the record. No call waits for anything but the disk, and none calls the
// manager back, so the manager may hold its own lock.
//
// What it does not do: bring anything over the network, or know what nodes run.
package membership
