// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"weir/internal/core/policy"
	"weir/internal/core/policy/quota"
)

// account is what was sent and received since the begin of a period. A workload that ends has it
// until the end of the period: one that starts again and again begins no quota anew, and has
// nothing read.
type account struct {
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	Sent     uint64    `json:"sent"`
	Received uint64    `json:"received"`
	// Partial says that what was moved in the period before the account was there is still
	// being read.
	Partial bool `json:"partial,omitempty"`
}

// mostAccounts bounds the accounts of workloads that are not there. The least used go first.
const mostAccounts = maxRows

// Follow returns how far those with a quota have come at a moment, by key. What is new, and
// what is in another period than before, begins with what the history has of the period, in
// whole hours. Files of days that are over are read beside the caller: a later Follow has them.
func (l *Ledger) Follow(at time.Time, wanted map[string]quota.Quota) map[string]quota.Standing {
	l.earlier.collect(l)
	standings := make(map[string]quota.Standing, len(wanted))
	for key, q := range wanted {
		start, end := q.Period(at)
		a := l.book.quotas[key]
		if a == nil || !a.Start.Equal(start) || a.Partial && !l.earlier.knows(key) {
			a = &account{Start: start, Partial: true}
			l.book.quotas[key], l.changed = a, true
			l.earlier.owed[key] = start
		}
		a.End = end
	}
	l.earlier.read(l)
	for key, q := range wanted {
		a := l.book.quotas[key]
		standings[key] = quota.Standing{Quota: q, Start: a.Start, End: a.End, Sent: a.Sent, Received: a.Received}
	}
	l.forget(at, wanted)
	return standings
}

// forget drops the accounts of those who have no quota now and whose period is over, or of which
// there are too many.
func (l *Ledger) forget(at time.Time, wanted map[string]quota.Quota) {
	var kept []string
	for key, a := range l.book.quotas {
		if _, ok := wanted[key]; ok {
			continue
		}
		if a.Partial || !at.Before(a.End) {
			delete(l.book.quotas, key)
		} else {
			kept = append(kept, key)
		}
	}
	if len(kept) <= mostAccounts {
		return
	}
	used := func(key string) uint64 { return l.book.quotas[key].Sent + l.book.quotas[key].Received }
	slices.SortFunc(kept, func(x, y string) int { return cmp.Or(cmp.Compare(used(y), used(x)), cmp.Compare(x, y)) })
	for _, key := range kept[mostAccounts:] {
		delete(l.book.quotas, key)
	}
}

// earlier reads what was moved before an account was there: 60 days of thousands of rows take more
// than a second.
type earlier struct {
	owed    map[string]time.Time // since when, by key: is to be read
	reading map[string]time.Time // is being read; nil = nothing is
	done    chan sums
}

// sums is what was moved, by key.
type sums struct {
	of  map[string]account
	err error
}

func newEarlier() earlier { return earlier{owed: map[string]time.Time{}, done: make(chan sums, 1)} }

// knows reports whether what came before an account is still to come.
func (e *earlier) knows(key string) bool {
	_, owed := e.owed[key]
	_, reading := e.reading[key]
	return owed || reading
}

// read begins to read what is owed. The accounts count from this moment on.
func (e *earlier) read(l *Ledger) {
	if e.reading != nil || len(e.owed) == 0 {
		return
	}
	e.reading, e.owed = e.owed, map[string]time.Time{}
	for key := range e.reading {
		if a := l.book.quotas[key]; a != nil {
			a.Sent, a.Received, a.Partial = 0, 0, true
		}
	}
	h, since := l.History(), e.reading
	first := slices.MinFunc(slices.Collect(maps.Values(since)), time.Time.Compare)
	if dates := datesIn(l.dir); len(dates) == 0 || dates[len(dates)-1] < dateOf(first) { // all of it is in memory
		e.done <- h.sums(since)
		e.collect(l)
		return
	}
	go func() { e.done <- h.sums(since) }()
}

// collect adds what was read to the accounts.
func (e *earlier) collect(l *Ledger) {
	select {
	case s := <-e.done:
		if s.err != nil {
			l.log.Error("a quota begins without what was used before", "keys", len(s.of), "err", s.err)
		}
		for key, start := range e.reading {
			if _, again := e.owed[key]; again { // it has gone and come back meanwhile
				continue
			}
			if a := l.book.quotas[key]; a != nil && a.Partial && a.Start.Equal(start) {
				a.Sent, a.Received, a.Partial = a.Sent+s.of[key].Sent, a.Received+s.of[key].Received, false
				l.changed = true
			}
		}
		e.reading = nil
	default:
	}
}

// sums returns the bytes of workloads and groups since a moment each, in whole hours.
func (h History) sums(since map[string]time.Time) sums {
	s := sums{of: map[string]account{}}
	first := slices.MinFunc(slices.Collect(maps.Values(since)), time.Time.Compare)
	s.err = h.each(first, time.Time{}, func(row series, at time.Time, bytes uint64) bool {
		from, ok := since[row.Key]
		if !ok || at.Before(from) {
			return true
		}
		a := s.of[row.Key]
		if row.Direction == policy.Ingress {
			a.Received += bytes
		} else {
			a.Sent += bytes
		}
		s.of[row.Key] = a
		return true
	})
	return s
}
