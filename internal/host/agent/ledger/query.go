// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
)

// maxAnswer bounds the rows of an answer.
const maxAnswer = 50_000

// History is what a ledger had at one moment: it may be asked from any goroutine.
type History struct {
	dir     string
	now     day
	renamed []renaming
}

// History returns what the ledger has.
func (l *Ledger) History() History { return History{l.dir, l.book.day(), l.renamed} }

// Sum returns the bytes of a workload or group since a moment, in whole hours.
func (h History) Sum(key string, since time.Time) (sent, received uint64, err error) {
	s := h.sums(map[string]time.Time{key: since})
	return s.of[key].Sent, s.of[key].Received, s.err
}

// each calls f for every hour with bytes from since on and before until, of which the zero
// value is the end, until it has enough.
func (h History) each(since, until time.Time, f func(series, time.Time, uint64) (more bool)) error {
	visit := func(d day) bool {
		begin, err := time.Parse(time.DateOnly, d.Date)
		if err != nil {
			return true
		}
		names := h.names(d.Date)
		for _, r := range d.Rows {
			if to, ok := names[r.Key]; ok {
				r.Key, r.Name = to.Key, to.Name
			}
			for hour, bytes := range r.Bytes {
				at := begin.Add(time.Duration(hour) * time.Hour)
				if bytes > 0 && !at.Before(since) && (until.IsZero() || at.Before(until)) && !f(r.series, at, bytes) {
					return false
				}
			}
		}
		return true
	}
	for _, date := range datesIn(h.dir) {
		if date == h.now.Date || date < dateOf(since) || !until.IsZero() && date > dateOf(until) {
			continue
		}
		d, err := readDay(filepath.Join(h.dir, date+".json"))
		if err != nil {
			return err
		}
		if !visit(d) {
			return nil
		}
	}
	visit(h.now)
	return nil
}

// Usage answers a question of the API, until ctx ends. Days and the hours are those of a zone.
func (h History) Usage(ctx context.Context, q api.UsageQuery, zone *time.Location) (api.Usage, error) {
	if err := check(q); err != nil {
		return api.Usage{}, err
	}
	type place struct {
		kind, name, key, device string
		at                      time.Time
	}
	rows := map[place]*api.UsageRow{}
	add := func(p place, direction policy.Direction, bytes uint64) {
		if q.Object != "" && q.Object != p.name && q.Object != p.key {
			return
		}
		r := rows[p]
		if r == nil {
			r = &api.UsageRow{Kind: p.kind, Name: p.name, Device: p.device}
			if !p.at.IsZero() {
				r.At = &p.at
			}
			rows[p] = r
		}
		if direction == policy.Ingress {
			r.ReceivedBytes += bytes
		} else {
			r.SentBytes += bytes
		}
	}
	err := h.each(q.Since.Truncate(time.Hour), q.Until, func(s series, at time.Time, bytes uint64) bool {
		p := place{kind: api.UsageOfWorkload, name: s.Name, key: s.Key, device: s.Link, at: begin(q.By, at, zone)}
		if s.isGroup() {
			p.kind = api.UsageOfGroup
		} else {
			add(place{kind: api.UsageOfLink, name: s.Link, key: s.Link, device: s.Link, at: p.at}, s.Direction, bytes)
		}
		add(p, s.Direction, bytes)
		return len(rows) <= maxAnswer && ctx.Err() == nil
	})
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return api.Usage{}, err
	}
	if len(rows) > maxAnswer {
		return api.Usage{}, &refusal.Error{Kind: refusal.Invalid, Field: "since", Msg: fmt.Sprintf("the answer has more than %d rows, which are the most", maxAnswer),
			Remedy: "ask for less time, for one name, or by day"}
	}
	u := api.Usage{Rows: []api.UsageRow{}}
	for _, r := range rows {
		u.Rows = append(u.Rows, *r)
	}
	slices.SortFunc(u.Rows, compare)
	return u, nil
}

// compare orders rows: by time, links first, then groups, then workloads; then by name.
func compare(x, y api.UsageRow) int {
	moment := func(r api.UsageRow) time.Time {
		if r.At == nil {
			return time.Time{}
		}
		return *r.At
	}
	return cmp.Or(moment(x).Compare(moment(y)), cmp.Compare(slices.Index(api.UsageKinds, x.Kind), slices.Index(api.UsageKinds, y.Kind)),
		cmp.Compare(x.Name, y.Name), cmp.Compare(x.Device, y.Device))
}

// begin returns when the hour or day of a moment begins, the zero value if neither is asked for.
func begin(by string, at time.Time, zone *time.Location) time.Time {
	switch by {
	case api.UsageByHour:
		return at.UTC()
	case api.UsageByDay:
		y, m, d := at.In(zone).Date()
		return time.Date(y, m, d, 0, 0, 0, 0, zone).UTC()
	}
	return time.Time{}
}

func check(q api.UsageQuery) error {
	if q.By != "" && !slices.Contains(api.UsageBy, q.By) {
		return &refusal.Error{Kind: refusal.Invalid, Field: "by", Value: q.By, Msg: "not a part of the answer", Remedy: "write one of " + strings.Join(api.UsageBy, ", ")}
	}
	if !q.Until.IsZero() && !q.Until.After(q.Since) {
		return &refusal.Error{Kind: refusal.Invalid, Field: "until", Value: q.Until.Format(time.RFC3339), Msg: "is not after since", Remedy: "give a later moment"}
	}
	return nil
}
