// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"fmt"
	"time"
)

// Refusals are cheap to provoke, so each author has a bucket of lines for them. So are changes by
// labels: a container can be started again and again, each time with other labels. All labels share
// one bucket, since a name costs nothing.
const (
	refusalBurst  = 30              // lines at once
	refusalEvery  = 2 * time.Second // one more line
	labelBurst    = 200
	labelEvery    = 5 * time.Second
	maxAuthors    = 1024 // buckets; further authors share one
	commonAuthors = "others"
)

// bucket holds the tokens that one author has left.
type bucket struct {
	burst   float64
	every   time.Duration
	lines   float64
	at      time.Time
	omitted int
}

// bounded reports whether lines like this one are bounded.
func (e *Entry) bounded() bool { return e.Result == Refused || e.Who.Via == ViaLabel }

// limiter holds the buckets.
type limiter struct{ buckets map[string]*bucket }

// admit reports whether an entry gets a line, and puts the number of those that got
// none into the next one that does.
func (l *limiter) admit(e *Entry) bool {
	b := l.of(e)
	b.lines = min(b.burst, b.lines+float64(e.Time.Sub(b.at))/float64(b.every))
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
	author, fresh := e.Who.Via, bucket{burst: refusalBurst, every: refusalEvery}
	if author == ViaLabel {
		fresh = bucket{burst: labelBurst, every: labelEvery}
	}
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
		b = &fresh
		b.lines, b.at = b.burst, e.Time
		l.buckets[cmp.Or(author, commonAuthors)] = b
	}
	return b
}
