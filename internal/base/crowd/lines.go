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

// LinesOf bounds the lines of the log about each of many things, such as members of a cluster. The
// zero value is ready.
type LinesOf struct {
	mu    sync.Mutex
	about map[string]*Lines
}

// Due reports whether a line about a thing is due, and how many were left out before it. Beyond
// maxParties things, further ones are one.
func (l *LinesOf) Due(thing string, now time.Time) (omitted int, due bool) {
	l.mu.Lock()
	lines := l.about[thing]
	if lines == nil && len(l.about) >= maxParties {
		thing = ""
		lines = l.about[thing]
	}
	if lines == nil {
		if l.about == nil {
			l.about = map[string]*Lines{}
		}
		lines = &Lines{}
		l.about[thing] = lines
	}
	l.mu.Unlock()
	return lines.Due(now)
}
