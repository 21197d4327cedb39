// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"fmt"
	"time"
)

// Refusals are cheap to provoke, so each author has a bucket of lines for them.
const (
	refusalBurst  = 30              // lines at once
	refusalEvery  = 2 * time.Second // one more line
	maxAuthors    = 1024            // buckets; further authors share one
	commonAuthors = "others"
)

// bucket holds the tokens that one author has left.
type bucket struct {
	lines   float64
	at      time.Time
	omitted int
}

// limiter holds the buckets.
type limiter struct{ buckets map[string]*bucket }

// admit reports whether a refusal gets a line, and puts the number of those that got
// none into the next one that does.
func (l *limiter) admit(e *Entry) bool {
	b := l.of(e)
	b.lines = min(refusalBurst, b.lines+float64(e.Time.Sub(b.at))/float64(refusalEvery))
	b.at = e.Time
	if b.lines < 1 {
		b.omitted++
		return false
	}
	b.lines--
	e.Omitted, b.omitted = b.omitted, 0
	return true
}

// of returns the bucket of an entry's author. All callers without a certificate share
// one: an address costs nothing.
func (l *limiter) of(e *Entry) *bucket {
	author := e.Who.Via
	if e.Who.UID != nil {
		author = fmt.Sprintf("%s uid %d", author, *e.Who.UID)
	}
	if e.Who.Via != ViaNetwork {
		author += " " + e.Who.Node
	}
	if l.buckets == nil {
		l.buckets = map[string]*bucket{}
	}
	b := l.buckets[author]
	if b == nil && len(l.buckets) >= maxAuthors {
		author = commonAuthors
		b = l.buckets[author]
	}
	if b == nil {
		b = &bucket{lines: refusalBurst, at: e.Time}
		l.buckets[cmp.Or(author, commonAuthors)] = b
	}
	return b
}
