// SPDX-License-Identifier: Apache-2.0

package attempts

import "time"

// Healing says when a link is set again though nothing is known to have changed, for what
// Backend.Missing does not see: after 30 s, or where setting it takes long, 6,000 times as long, up
// to ten minutes. The zero value is due.
type Healing struct {
	at    time.Time
	pause time.Duration
}

const (
	healEvery = 30 * time.Second
	healMost  = 10 * time.Minute
	healPart  = 6000
)

// Done notes that a link was set, and how long that took.
func (h *Healing) Done(at time.Time, took time.Duration) {
	*h = Healing{at, min(max(healPart*took, healEvery), healMost)}
}

// Due reports whether it is time.
func (h *Healing) Due(now time.Time) bool { return now.Sub(h.at) >= h.pause }
