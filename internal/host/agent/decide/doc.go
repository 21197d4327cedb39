// SPDX-License-Identifier: Apache-2.0

// Package decide says what follows from what an agent knows. It consists of functions of
// values: no I/O, no clock, no log.
//
// A World is what the agent knows: the configuration, the workloads that its sources found,
// what was set at run time, which mins are admitted, what the links' backends can hold.
// Decide makes a Decision of it: a Ruling for each workload and group, and for each link the
// plan.State that its backend is told.
//
// A workload's policy is put together from layers, each over the ones before it, field by
// field: Weir's default, the configuration, the workload's own labels (weir.weight,
// weir.min, ...) as far as they may say something, and what was set at run time. A min for
// which a link has no room is left out of its plan, and the ruling says why.
//
// What a user asks for is a ChangeRequest: the world with the change in it. Try decides about that
// world and refuses a request of which a part would not come into force:
//
//	r, err := d.Set("db", change)      // min 50 Mbit/s; web holds 60 of 100
//	next, err := d.Try(r)              // refused: asked 50 Mbit/s, ..., free 40 Mbit/s
//
// A Decision has the World that it is about, with the class numbers and admitted mins that
// follow. Deciding about that world again plans the same, so an agent that starts anew plans
// the state in force already, and a min that is admitted is never lost to one that came later.
//
// What it does not do: find workloads, keep a decision, or tell a kernel of it. Package agent
// does.
package decide
