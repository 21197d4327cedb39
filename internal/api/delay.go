// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"

	"weir/internal/core/delay"
)

// Delay is how long packets of a workload, a group or a queue waited in the link's qdisc: those
// that left in the last 10 to 20 s. The kernel draws some of them at random and counts each for
// all that it stands for.
type Delay struct {
	P50Ms   float64 `json:"p50_ms" doc:"half of them waited at most that"`
	P99Ms   float64 `json:"p99_ms" doc:"99 of 100 waited at most that"`
	MostMs  float64 `json:"most_ms" doc:"none of those that were drawn waited longer"`
	Packets uint64  `json:"packets" doc:"how many left, about; 0 = none, and the other values are 0 too"`
	// Total has all packets since the agent has known the workload; only in the agent's
	// own process, for /metrics.
	Total *delay.Histogram `json:"-"`
}

// Text returns the delay in words: "p50 1.2 ms, p99 5.1 ms, at most 7.0 ms".
func (d *Delay) Text() string {
	switch {
	case d == nil:
		return "not measured there"
	case d.Packets == 0:
		return "no packet has left in the last seconds"
	}
	return fmt.Sprintf("p50 %s, p99 %s, at most %s", delay.MsText(d.P50Ms), delay.MsText(d.P99Ms), delay.MsText(d.MostMs))
}

// P99Text returns the p99 alone: "5.1 ms"; "-" where nothing was measured.
func (d *Delay) P99Text() string {
	if d == nil || d.Packets == 0 {
		return "-"
	}
	return delay.MsText(d.P99Ms)
}
