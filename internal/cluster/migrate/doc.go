// SPDX-License-Identifier: Apache-2.0

// Package migrate moves a running container from one node to another, with its
// memory, its files and its configuration, and never leaves two or none.
//
//	source                              target
//	                     preflight      what would fail is said; nothing is touched
//	push ─────────────── image ───────► pull          while the container runs
//	                     create ──────► a container with the same configuration
//	freeze (CRIU dump)                                the downtime begins
//	changed files ────── layer ───────► its own layer
//	volumes ──────────── volume ──────►
//	memory (zstd) ────── checkpoint ──►
//	                     restore ─────► it is there, held, on probation
//	                     confirm ─────► it runs        the downtime has ended
//	forget                                            what the source kept is removed
//
// Run does this once. Each step is a call of a Node, which is this machine's engine
// (Local) or another machine behind a transport, and is written into the Journal
// before and after. The point of no return is the journal's record "confirm": before
// it, whatever fails, the target's copy is discarded and the source's container goes
// on from its checkpoint; after it, the target is asked until it answers.
//
// Two nodes cannot be sure of each other while the network between them is cut. Therefore
// the target holds its copy (the cgroup freezer) until it is confirmed, and discards it
// unless that happens within MoveSpec.Lease. A source whose target does not answer waits
// that long before it goes on alone, so that no restore is under way any more. So there
// is a time in which neither container runs, but none in which both do, even if the
// target's agent is dead for good: a held copy stays held without an agent.
//
// One gap is left: an engine restores without being watched if the agent dies in that
// half second, and its copy runs until an agent is back, which holds it first of all.
//
// Three approaches bring the file system over (see Approach). The package's own
// additions to plain docker commands, all measured in docs/papers/c-balancer.md:
// runc dumps at once where "docker checkpoint create" copies the memory through two
// archives, and the memory does not go through Docker's archives on its way back
// either.
//
// Memory goes ahead, while the container still runs, where the kernel of the source has
// soft-dirty pages (Facts.SoftDirty).
//
// What it does not do: containers of Kubernetes.
package migrate
