// SPDX-License-Identifier: Apache-2.0

// Package guest has the rules for a container that comes from another node: the record of
// what was granted and done, what of it package move asks about, and how long a description
// may be. It is pure: package incoming keeps the records and asks it before each step,
// package outgoing describes no container that a target would not take.
//
//	r := guest.Arrival{Grant: grant}
//	err := r.May(move.Restore, "", grant) // "volume data of web has not arrived"
//	r.Arrived("volume data", sum)
//	r.Took(now, move.Restore, outcome, nil, wire.Statement{})
//
// Each step and each part is taken once, and none after the end.
package guest
