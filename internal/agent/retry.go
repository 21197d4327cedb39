// SPDX-License-Identifier: Apache-2.0

package agent

import "time"

// retry spaces out attempts: at once, then after 1, 2, 4 and at most 8 seconds.
type retry struct {
	at   time.Time
	wait time.Duration
}

const longestWait = 8 * time.Second

func (r *retry) due(now time.Time) bool { return !now.Before(r.at) }

func (r *retry) failed(now time.Time) {
	r.wait = min(max(2*r.wait, time.Second), longestWait)
	r.at = now.Add(r.wait)
}

func (r *retry) succeeded() { *r = retry{} }
