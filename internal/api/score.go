// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"math"
)

// Score is the promise score of a workload or group on one link over the agent's last hour:
// the part of the seconds in which its packets waited, in which it got its min meanwhile, or its
// share if it has no min.
type Score struct {
	WantedSeconds      int     `json:"wanted_seconds" doc:"seconds of the last hour in which its packets waited, long enough to tell whether it got what it is promised meanwhile"`
	Kept               float64 `json:"kept" doc:"part of them in which it got that, 0 to 1"`
	WorstMinute        float64 `json:"worst_minute" doc:"the same in the worst minute with at least 10 such seconds, 0 to 1"`
	WantedSecondsTotal uint64  `json:"wanted_seconds_total" doc:"such seconds since the agent has known the workload"`
	KeptSecondsTotal   uint64  `json:"kept_seconds_total" doc:"those of them in which the promise was kept"`
	Text               string  `json:"text" doc:"the score in words"`
}

// KeptText returns Kept as text, in percent.
func (s Score) KeptText() string { return RoundedDown(s.Kept) }

// RoundedDown returns a part as text, in percent: what was not kept whole is not 100.0 %.
func RoundedDown(part float64) string {
	return fmt.Sprintf("%.1f %%", math.Floor(part*1000+1e-9)/10)
}
