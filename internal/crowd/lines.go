// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"sync"
	"time"
)

// The lines of the log that there may be about one thing: some at once, and one more each
// LinesEvery.
const (
	LinesAtOnce = 5
	LinesEvery  = 10 * time.Second
)

// Lines bounds how many lines of the log there are about one thing. The zero value is ready.
type Lines struct {
	mu      sync.Mutex
	used    float64 // of LinesAtOnce
	at      time.Time
	omitted int
}

// Due reports whether a line is due, and how many were left out before it.
func (l *Lines) Due(now time.Time) (omitted int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = max(0, l.used-float64(now.Sub(l.at))/float64(LinesEvery))
	l.at = now
	if l.used+1 > LinesAtOnce {
		l.omitted++
		return 0, false
	}
	l.used++
	omitted, l.omitted = l.omitted, 0
	return omitted, true
}
