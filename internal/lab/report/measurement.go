// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	"weir/internal/lab/meter"
	"weir/internal/lab/traffic"
)

// Measurement is everything that one run of a scenario yields, before any
// judgement. It crosses from the lab's private host to the process that reports.
type Measurement struct {
	Scheduler string               `json:"scheduler"`
	Backend   string               `json:"backend"`         // bpf, tc or peer
	Notes     []string             `json:"notes,omitempty"` // what the reader should know, such as a backend's gaps
	Timeline  meter.Timeline       `json:"timeline"`        // from the beginning of the scenario, one bucket per scenario.Bucket
	Reports   []traffic.FlowReport `json:"reports"`
	Phases    []Account            `json:"phases"`
}

// Account holds the host's own numbers about one phase.
type Account struct {
	Drops    *uint64       `json:"drops"`     // packets that the scheduler lost in the whole phase; nil: it does not count
	CPU      *float64      `json:"cpu"`       // share of CPU time spent in the measured window
	CPUExact bool          `json:"cpu_exact"` // by the soaker
	CPUs     int           `json:"cpus"`
	Applied  time.Duration `json:"applied"` // how long the change of policy took
}
