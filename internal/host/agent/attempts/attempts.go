// SPDX-License-Identifier: Apache-2.0

// Package attempts spaces out attempts at something that fails, for a loop that looks once a
// second whether one is due: at once, then after 1, 2, 4 and at most 8 seconds. It neither waits
// nor reads a clock.
package attempts

import "time"

// Attempts are those at one thing. The zero value is ready: one is due at once.
type Attempts struct {
	at   time.Time
	wait time.Duration
}

const longestWait = 8 * time.Second

// Due reports whether it is time for an attempt.
func (r *Attempts) Due(now time.Time) bool { return !now.Before(r.at) }

// Failed notes that an attempt has failed.
func (r *Attempts) Failed(now time.Time) {
	r.wait = min(max(2*r.wait, time.Second), longestWait)
	r.at = now.Add(r.wait)
}

// Succeeded notes that none is needed now.
func (r *Attempts) Succeeded() { *r = Attempts{} }
