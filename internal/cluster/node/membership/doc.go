// SPDX-License-Identifier: Apache-2.0

// Package membership makes a machine a member of a cluster, keeps it one, and says whom it
// believes: the manager, and the members on the list that the manager signs.
//
//	join.go     a token becomes a certificate (Enroll)
//	renew.go    the certificate is renewed in time
//	members.go  the manager's list of members is asked for again and again
//	roster.go   the list as it is kept on the disk, with members that have left
//	peers.go    which key a peer must show, by that list
//	verify.go   which envelopes are the manager's
//	fresh.go    which moves may begin, by the age of the list
//	warrant.go  what the migration helper is shown of that
//	manager.go  one request to the manager, by HTTPS
//
// A Membership serves and speaks to a peer only if the peer is on the list with the key
// that it shows. A move begins only by a list that the manager has confirmed within
// wire.MembersFresh; one that has begun goes on by the last list, without a manager.
package membership
