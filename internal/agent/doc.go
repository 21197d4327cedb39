// SPDX-License-Identifier: Apache-2.0

// Package agent is the loop of one node: it learns which workloads run, gives
// each its policy, has the kernel hold it, measures what comes of it, and
// answers whoever asks.
//
// A workload's policy is put together from four layers, each over the ones
// before it, field by field: Weir's default, the configuration, the workload's
// own labels (weir.weight, weir.min, ...), and what was set at run time. From
// all policies, the links and the order in which mins were admitted follows one
// plan.State per link:
//
//	sources ─┐
//	config  ─┼─► world ─► decide ─► decision ─► Backend.Set, state.json, log
//	API     ─┘            (pure)       │
//	counters, once a second ───────────┴─────► shares, explanations, samples
//
// Example: eth0 carries 100 Mbit/s; web has the label weir.min=60mbit and db
// asks for 50mbit by "weir set". The second is refused with the numbers and
// nothing changes. Were it a label, db would be steered without its min, in
// state "refused", and get the min as soon as there is room. An admitted min is
// never displaced by one that came later.
//
// # Who may touch what
//
// The goroutine in Run owns all state. Everything else (the API's methods, the
// sources' reports, the backends' ends) hands it a function through do and
// waits. So nothing here needs a lock, and a reader always sees one consistent
// moment. Decisions are functions of values in files of their own (decide.go,
// demand.go, explain.go, labels.go, layers.go, names.go); they know neither clock nor I/O.
//
// # What survives what
//
// The kernel schedules on when the agent stops, whatever the reason. State that
// the kernel cannot tell (what was set at run time, which number and which place
// in the order of admission a workload has) is in state.json, so that an agent
// that starts again plans exactly what is in force already, and changes nothing.
package agent
