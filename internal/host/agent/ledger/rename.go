// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"time"
)

// renaming is workloads that have other keys from a day on. Files of days that are over stay as
// they are: History reads them with the keys of now.
type renaming struct {
	Day  string           `json:"day"`
	Keys map[string]Owner `json:"keys"`
}

// mostRenamings bounds what is known of earlier days. The oldest go first.
const mostRenamings = 256

// Rename has what was counted for workloads go with them to other keys, at once: two may have
// exchanged theirs.
func (l *Ledger) Rename(at time.Time, keys map[string]Owner) {
	if l.book.date == "" || len(keys) == 0 {
		return
	}
	l.book.rename(keys)
	l.earlier.rename(keys)
	l.renamed = append(l.renamed, renaming{l.book.date, keys})
	l.renamed = slices.Clone(l.renamed[max(0, len(l.renamed)-mostRenamings):]) // a History has the former ones
	l.changed = true
	l.Write(at)
}

// rename moves rows, readings and accounts.
func (b *book) rename(keys map[string]Owner) {
	rows := map[series]*hours{}
	for s, bytes := range b.rows {
		if to, ok := keys[s.Key]; ok {
			s.Key, s.Name = to.Key, to.Name
		}
		if rows[s] == nil {
			rows[s] = new(hours)
		}
		for hour, n := range bytes {
			rows[s][hour] += n
		}
	}
	b.rows = rows
	for _, last := range b.bases {
		for id, c := range last.Classes {
			if to, ok := keys[c.Key]; ok {
				c.Key, c.Name = to.Key, to.Name
				last.Classes[id] = c
			}
		}
	}
	move(b.quotas, keys)
}

// rename has what is still to be read of the past asked for by the new keys.
func (e *earlier) rename(keys map[string]Owner) {
	for from := range keys {
		if since, ok := e.reading[from]; ok { // its answer will have the former key
			e.owed[from] = since
		}
	}
	move(e.owed, keys)
}

// move gives the entries of some keys to others, at once.
func move[V any](entries map[string]V, keys map[string]Owner) {
	moved := map[string]V{}
	for from, to := range keys {
		if v, ok := entries[from]; ok {
			moved[to.Key] = v
			delete(entries, from)
		}
	}
	maps.Copy(entries, moved)
}

// names returns the keys that workloads have now, by those that they had on a day, where they
// differ.
func (h History) names(date string) map[string]Owner {
	names := map[string]Owner{}
	for _, r := range slices.Backward(h.renamed) {
		if r.Day <= date {
			continue
		}
		later := maps.Clone(names)
		for from, to := range r.Keys {
			if again, ok := later[to.Key]; ok {
				to = again
			}
			names[from] = to
		}
	}
	return names
}
