// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"time"

	"weir/internal/base/verdict"
	"weir/internal/core/plan"
	"weir/internal/lab/scenario"
)

// Result is a judged run.
type Result struct {
	Scenario  *scenario.Scenario
	Scheduler string
	Backend   string
	Notes     []string
	Phases    []Phase
	Verdicts  []verdict.Verdict // on each expectation that is meant for the scheduler
	Failures  []string          // those that do not hold, one line each
	// Rates[w][step] is workload w's rate in bits per second in each Step.
	Rates   [][]float64
	Stretch []scenario.Stretch
	// Goodput[w][n] is what the programs of workload w got in second n, bits per second.
	Goodput  [][]float64
	Problems []string // of generators that failed, one line each
	Captions []string // of the phases, for the plot; may be empty
}

// Unmeasured is a scheduler that a scenario could not be run with, and why. It stands in the
// report in place of a Result.
type Unmeasured struct {
	Scenario  string `json:"scenario"`
	Scheduler string `json:"scheduler"`
	Problem   string `json:"problem"`
}

func (u Unmeasured) String() string {
	return fmt.Sprintf("scheduler %s: not measured: %s", u.Scheduler, u.Problem)
}

// Failed says that an expectation does not hold, or that a generator did not do what the
// scenario asks for, so that the figures are not about it.
func (r *Result) Failed() bool { return len(r.Failures) > 0 || len(r.Problems) > 0 }

// scheduled names what scheduled the link: on the fallback, HTB in the place of the
// scheduler that was asked for.
func (r *Result) scheduled() string {
	if r.Backend == plan.BackendTC {
		return "HTB in place of " + r.Scheduler
	}
	return r.Scheduler
}

// Step is the resolution of Result.Rates.
const Step = 100 * time.Millisecond

// Phase holds the measurements of one phase.
type Phase struct {
	Number    int
	Workloads []Workload
	Link      Link
}

// RTT in milliseconds.
type RTT struct {
	P50  *float64 `json:"p50"`
	P99  *float64 `json:"p99"`
	Mean *float64 `json:"mean,omitempty"`
	Most *float64 `json:"most,omitempty"`
}

// Workload is one JSON object. Nil: not measured.
type Workload struct {
	Scenario  string `json:"scenario"`
	Scheduler string `json:"scheduler"`
	Backend   string `json:"backend"`

	Phase       int      `json:"phase"`
	Workload    string   `json:"workload"`
	RateBps     float64  `json:"rate_bps"`
	IdealBps    float64  `json:"ideal_bps"`
	Error       float64  `json:"error"`
	RTT         RTT      `json:"rtt_ms"`
	JitterMs    *float64 `json:"jitter_ms"`
	Loss        *float64 `json:"loss"`
	Retransmits *uint64  `json:"retransmits"`

	GoodputBps *float64 `json:"goodput_bps"`
	ReserveBps float64  `json:"reserve_bps,omitempty"`
	// How the goodput went to the reservation, where it began or changed in this phase.
	RiseS       *float64 `json:"rise_s,omitempty"`       // from 10 % to 90 %
	Overshoot   *float64 `json:"overshoot,omitempty"`    // part of the target
	SettleS     *float64 `json:"settle_s,omitempty"`     // until it stays within 2 %
	SteadyError *float64 `json:"steady_error,omitempty"` // mean of the last third less the target, part of it
	// How far a reservation that went on was moved by what happened when the phase
	// began, part of it; and how long its goodput was low at a time, seconds.
	Disturbance  *float64 `json:"disturbance,omitempty"`
	RecoveryS    *float64 `json:"recovery_s,omitempty"`
	Packets      uint64   `json:"packets"`
	Pings        int      `json:"pings,omitempty"`
	Transactions *float64 `json:"transactions_per_s,omitempty"`
	PaperBps     *float64 `json:"paper_bps,omitempty"`

	Flows  []Flow  `json:"flows"`            // a result per traffic entry that sent in the phase
	Queues []Queue `json:"queues,omitempty"` // in the order of the policy

	floor, ceiling float64 // what bounds holds, averaged over the window
	wirePayload    float64 // payload that the frames carried, bits per second
	// shows are the conditions of which its generators show something in this phase.
	shows map[scenario.Check]bool
}

// Link is the JSON object of the link in one phase.
type Link struct {
	Scenario  string `json:"scenario"`
	Scheduler string `json:"scheduler"`
	Backend   string `json:"backend"`

	Phase       int      `json:"phase"`
	Link        string   `json:"link"`
	RateBps     float64  `json:"rate_bps"`
	Utilisation float64  `json:"utilisation"`
	CPU         *float64 `json:"cpu"`
	Jain        *float64 `json:"jain"`

	CapacityBps    float64  `json:"capacity_bps"`
	CPUExact       bool     `json:"cpu_exact"`
	CPUNsPerPacket *float64 `json:"cpu_ns_per_packet"`
	CPUSPerGbyte   *float64 `json:"cpu_s_per_gbyte"`
	Packets        uint64   `json:"packets"`
	Drops          *uint64  `json:"drops"`
	ReactionMs     *float64 `json:"reaction_ms"`
	// Unsteady is the largest error of a rate in any short window, as a share of the capacity.
	Unsteady *float64 `json:"unsteady"`
	// ReactionWindowMs is the window that ReactionMs was judged by; nil: nothing changed.
	ReactionWindowMs *float64 `json:"reaction_window_ms"`
	ApplyMs          float64  `json:"apply_ms"`
}
