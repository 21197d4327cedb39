// SPDX-License-Identifier: Apache-2.0

// Package report turns what was measured into figures, judges them against the
// contract and the scenario's expectations, and shows them as a table, as JSON
// lines and as a plot.
//
// Evaluate is pure: a scenario and a Measurement in, a Result out.
//
//	r := report.Evaluate(s, m)
//	r.Phases[0].Workloads[2].RateBps  // wire bits per second received
//	r.Phases[0].Workloads[2].IdealBps // what the contract gives it
//	report.Table(os.Stdout, r)
//
// Everything is measured at the receiver, in the window from Settle after a
// phase's beginning to its end. The JSON keys are a public interface
// (docs/scenario.md): added to, never renamed.
package report
