// SPDX-License-Identifier: Apache-2.0

// Package figures reads what runs of the lab have left under docs/papers/data, and says
// whether it is still about the program that stands beside it. Pages, the README's tables
// and the table of bars take their figures from here and from nowhere else.
//
// docs/papers/data/PAPER/NAME.jsonl is one run. Its first line is its Origin:
//
//	{"run":{"scenario":"lab/qcon/fig07.yaml","scheduler":"fair","commit":"d4d6f40...","kernel":"7.3.4+deb13-cloud-amd64","date":"2026-11-23","command":"vm/run ...","status":0,...}}
//
// The other lines are the run's results, as `weir lab run --json` prints them: a line for
// each phase and workload, one for each phase's link; a line for each row of cost and timing.
//
//	all, err := figures.Load(os.DirFS("docs/papers/data"))
//	run := all.Run("qcon/fig07-fair")        // nil: it was not run
//	link, found := run.Link(2)               // of phase 2
//	run.Source.Date                          // "2026-11-23"
package figures
