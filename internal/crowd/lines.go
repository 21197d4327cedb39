// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"sync"
	"time"
)

// LinesEvery is between two lines of the log about the same thing.
const LinesEvery = 10 * time.Second

// Lines bounds how many lines of the log there are about one thing. The zero value is ready.
type Lines struct {
	mu      sync.Mutex
	said    time.Time
	omitted int
}

// Due reports whether a line is due, and how many were left out before it.
func (l *Lines) Due(now time.Time) (omitted int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.said.IsZero() && now.Sub(l.said) < LinesEvery {
		l.omitted++
		return 0, false
	}
	omitted, l.omitted, l.said = l.omitted, 0, now
	return omitted, true
}
