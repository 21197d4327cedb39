// SPDX-License-Identifier: Apache-2.0

// Package agent is the loop of one node: it learns which workloads run, has decided what
// follows, has the kernel hold that, measures what comes of it, and answers requests.
//
// Package decide, below this one, is the judgement: it puts together each workload's policy
// and makes one plan.State per link of all policies, the links and the order in which mins
// were admitted. Package usage says what the classes of a link did and should have had. This
// package feeds both and carries out what follows:
//
//	sources ─┐
//	config  ─┼─► decide.World ─► decide.Decide ─► decide.Decision ─► Backend.Set, state.json, log
//	API     ─┘                       (pure)             │
//	counters, once a second ────────────────────────────┴─► usage.Division ─► API
//	                                                           (pure)
//
// Example: eth0 carries 100 Mbit/s; web has the label weir.min=60mbit and db
// asks for 50mbit by "weir set". The second is refused with the numbers and
// nothing changes. Were it a label, db would be steered without its min, in
// state "refused", and get the min as soon as there is room. An admitted min is
// never displaced by one that came later.
//
// # The parts
//
// Agent is the loop: it answers the API, and hands what it learns to decide. What belongs
// together has an object: finder knows the workloads, link one steered device and its backend,
// links all of them, regulator the controllers of reservations, offload.Limits the size of
// their packets, record.Recorder the logs, readers the subscribers. A moment has what the API
// shows. Package memory is state.json.
//
// # Who may touch what
//
// The goroutine in Run owns all state. Everything else (the API's methods, the
// sources' reports, the backends' ends) hands it a function through do and
// waits. So nothing here needs a lock, and a reader always sees one consistent
// moment.
//
// # What survives what
//
// The kernel schedules on when the agent stops, whatever the reason. State that
// the kernel cannot tell (what was set at run time, which number and which place
// in the order of admission a workload has) is in state.json, so that an agent
// that starts again plans exactly the state in force, and changes nothing.
package agent
