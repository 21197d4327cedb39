// SPDX-License-Identifier: Apache-2.0

// Package guest has the rules for a container that comes from another node: the record of
// what was granted and done, which step or part may come next, and how long a description
// may be. It is pure: package incoming keeps the records and asks it before each step,
// package outgoing describes no container that a target would not take.
//
//	r := guest.Record{Grant: grant}
//	err := r.MayTake(migrate.StepRestore, order) // "volume data of web has not arrived"
//	r.Arrived("volume data", sum)
//	r.Took(now, migrate.StepRestore, outcome, nil, wire.Statement{})
//
// Each step and each part is taken once, and none after the end.
package guest
