// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// Class is what the kernel has counted for a class since the class was made.
type Class struct {
	ID    plan.ClassID
	Owner Owner // the zero value is the owner that the class had at the reading before
	Bytes uint64
	Gone  bool // this is the last reading of it: one of the same number counts anew
}

// Owner is whose a class is.
type Owner struct {
	Key   string `json:"key"`
	Name  string `json:"name"`
	Group string `json:"group,omitempty"` // that the workload is in
}

// Reading is the counters of one link at one instant.
type Reading struct {
	Link      string // its device
	Direction policy.Direction
	// Epoch changes where the counters have begun anew: with the boot and the backend.
	Epoch   string
	Classes []Class
}

// series names a row of a day.
type series struct {
	Key       string           `json:"key"`
	Name      string           `json:"name"`
	Link      string           `json:"link"`
	Direction policy.Direction `json:"direction"`
}

func (s series) compare(t series) int {
	return cmp.Or(cmp.Compare(s.Key, t.Key), cmp.Compare(s.Link, t.Link), cmp.Compare(s.Direction, t.Direction), cmp.Compare(s.Name, t.Name))
}

// hours are the bytes of each hour of a day.
type hours [24]uint64

// row is a series with its bytes, as files have it.
type row struct {
	series
	Bytes hours `json:"bytes"`
}

// day is what was counted on one day, UTC.
type day struct {
	Date string `json:"day"` // 2006-01-02
	Rows []row  `json:"rows"`
}

// counted is what the last reading said of a class.
type counted struct {
	Owner
	Bytes uint64 `json:"bytes"`
}

// base is the last reading of a link.
type base struct {
	Epoch   string                   `json:"epoch"`
	Classes map[plan.ClassID]counted `json:"classes"`

	present map[plan.ClassID]bool // classes that the last reading had
}

// maxRows bounds the rows of a day. The bytes of series beyond it are counted together, as
// those of othersKey. There are as many rows more for those with a quota: who makes
// thousands of containers must not have a quota begin anew.
const maxRows = 4000

// othersKey is the key and the name of what has no row of its own.
const othersKey = "(others)"

// book is what is counted of one day, and the readings that it follows from.
type book struct {
	date  string
	rows  map[series]*hours
	bases map[string]*base // by link and direction
	// lost says that the kernel may no longer hold what the last readings had.
	lost bool
	// quotas is what was moved in the present period of each quota, by key.
	quotas map[string]*account
}

func newBook(d day, bases map[string]*base, quotas map[string]*account) *book {
	b := &book{date: d.Date, rows: map[series]*hours{}, bases: bases, quotas: quotas}
	if b.bases == nil {
		b.bases = map[string]*base{}
	}
	if b.quotas == nil {
		b.quotas = map[string]*account{}
	}
	for _, r := range d.Rows {
		b.rows[r.series] = new(r.Bytes)
	}
	return b
}

// day returns what the book has of its day, in order.
func (b *book) day() day {
	d := day{Date: b.date, Rows: make([]row, 0, len(b.rows))}
	for s, bytes := range b.rows {
		d.Rows = append(d.Rows, row{s, *bytes})
	}
	slices.SortFunc(d.Rows, func(x, y row) int { return x.compare(y.series) })
	return d
}

// take adds what a link's counters grew by to an hour of the day. The first reading ever of a
// link is where counting begins. It reports whether anything grew.
func (b *book) take(hour int, r Reading) (grown bool) {
	name := r.Link + " " + string(r.Direction)
	last, known := b.bases[name]
	if !known {
		last = &base{Epoch: r.Epoch, Classes: map[plan.ClassID]counted{}}
		b.bases[name], b.lost = last, true
	}
	if last.Epoch != r.Epoch {
		last.Epoch, last.Classes, b.lost = r.Epoch, map[plan.ClassID]counted{}, true
	}
	present := make(map[plan.ClassID]bool, len(r.Classes))
	for _, c := range r.Classes {
		was := last.Classes[c.ID]
		if !known {
			was.Bytes = c.Bytes
		}
		if c.Bytes < was.Bytes { // the class was made anew
			was.Bytes, b.lost = 0, true
		}
		owner := cmp.Or(c.Owner, was.Owner)
		last.Classes[c.ID], present[c.ID] = counted{owner, c.Bytes}, true
		if n := c.Bytes - was.Bytes; n > 0 && owner.Key != "" { // groups and zones have none
			b.credit(owner, r, hour, n)
			grown = true
		}
		if c.Gone {
			delete(last.Classes, c.ID)
			delete(present, c.ID)
			b.lost = true
		}
	}
	for id := range last.present {
		b.lost = b.lost || !present[id]
	}
	last.present = present
	return grown
}

// credit adds bytes to the rows of an owner.
func (b *book) credit(owner Owner, r Reading, hour int, bytes uint64) {
	b.add(series{owner.Key, owner.Name, r.Link, r.Direction}, hour, bytes)
	if owner.Group != "" {
		b.add(series{plan.GroupKey(owner.Group), owner.Group, r.Link, r.Direction}, hour, bytes)
	}
}

func (b *book) add(s series, hour int, bytes uint64) {
	q, most := b.quotas[s.Key], maxRows
	if q != nil {
		most *= 2
	}
	if b.rows[s] == nil && len(b.rows) >= most {
		s.Key, s.Name = othersKey, othersKey
	}
	if b.rows[s] == nil {
		b.rows[s] = new(hours)
	}
	b.rows[s][hour] += bytes
	switch {
	case q == nil:
	case s.Direction == policy.Ingress:
		q.Received += bytes
	default:
		q.Sent += bytes
	}
}

// isGroup reports whether the bytes of a series are those of a group, which its members' are
// too.
func (s series) isGroup() bool { return s.Key == plan.GroupKey(s.Name) }

// dateOf returns the day of a moment, as files are named.
func dateOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// isDate reports whether a text names a day.
func isDate(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil && !strings.ContainsAny(text, " ")
}
