// SPDX-License-Identifier: Apache-2.0

// Package warrant has the migration helper examine the manager's permission itself: a
// taken-over agent, which is the helper's only caller, gets it to do nothing that the
// manager has not granted.
//
//	describe, lacking    the manager's Move, before its deadline, for that container
//	admit                its Grant, before its deadline, and the description that the
//	                     grant has the hash of; the helper keeps both
//	do, send, receive    what the grant is for: steps and parts of this node's role in
//	                     that move, each once
//	copy, hold, release  the same, for a target
//
// Admissions keeps what was admitted and done in a folder that the agent's unit cannot
// write to, and in which Trust keeps the cluster's authority and this node's name from
// the first time on (decision 0035). An engine is then given the container as the grant
// describes it; of a call's own order, only what a node says about itself counts: where
// its engine finds the registry, by which login, and which image it has committed.
//
// What it does not do: decide the order of the steps, or whether the other node really
// has the copy. That is the agent's work, and a taken-over agent can do it wrongly for
// a container whose move was granted.
package warrant
