// SPDX-License-Identifier: Apache-2.0

// Package planning puts what nodes say of themselves into the form in which package
// optimize reasons about a cluster, and puts its answers into words. All of it is
// functions of values.
//
//	heartbeats, profiles ─► Node ─┐
//	moves ────────────────────────┴─► Problem ─► Solve, Seat, Pick, Lacking
//
// A Problem is the cluster of one moment. Nodes of which nothing is known now are not in
// it. A container stays where it is if its node cannot checkpoint it, if it is labelled
// so, or if a move of it is under way or has just ended; one that is on its way counts as
// if it had arrived. A node that has refused a container lately is no place for it.
//
// Example: nodes a and b are up, c was last heard of a minute ago, and web moves from a to
// b. The problem has two nodes, with web on b, held ("is moving to b"), and c is unknown.
//
// Automatic has the settings for moves that the manager begins by itself, and says how many
// may begin now and whether a plan is worth them.
//
// What it does not do: order a move, or know how moves end (package moves).
package planning
