// SPDX-License-Identifier: Apache-2.0

// Package times knows the parts of a week in which a policy differs: days, hours, a time
// zone. It is pure: the moment is always given.
//
//	p, err := times.Parse("mon-fri 08:00-18:00 Europe/Berlin")
//	p.Covers(now)                  // do these hours run?
//	times.Next([]times.Period{p}, now) // when do they begin or end?
//
// A period begins at the first moment of its day at which clocks there show its beginning, or
// more, and ends at the first at which they show its end, or more. So where daylight saving
// skips an hour in which a period would begin, it begins when the clocks go on; where it
// repeats one, the period begins and ends at the first of the two.
package times

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a host that is a small device or container has no time zones of its own

	"weir/internal/core/invalid"
)

// Clock is a time of the day: minutes since midnight, 0 to 1440.
type Clock uint16

// midnight is 24:00, the end of a day.
const midnight Clock = 24 * 60

// String returns the time as 08:00.
func (c Clock) String() string { return fmt.Sprintf("%02d:%02d", c/60, c%60) }

// Days is a set of days of the week; bit 0 is Monday.
type Days uint8

// everyDay is the whole week.
const everyDay Days = 1<<7 - 1

var dayNames = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

// Has reports whether a day is in the set.
func (d Days) Has(day time.Weekday) bool { return d>>((int(day)+6)%7)&1 != 0 }

// String returns the days as mon-fri or mon,wed,sat-sun; all of them are "daily".
func (d Days) String() string {
	if d == everyDay {
		return "daily"
	}
	var parts []string
	for first := 0; first < 7; first++ {
		if d>>first&1 == 0 {
			continue
		}
		last := first
		for last < 6 && d>>(last+1)&1 != 0 {
			last++
		}
		if last == first {
			parts = append(parts, dayNames[first])
		} else {
			parts = append(parts, dayNames[first]+"-"+dayNames[last])
		}
		first = last
	}
	return strings.Join(parts, ",")
}

// Period is a part of the week. It ends on the next day if To is not after From.
type Period struct {
	Days     Days
	From, To Clock
	Zone     string // name of a time zone such as Europe/Berlin; "" = the host's own
}

// String returns the period as Parse reads it.
func (p Period) String() string {
	text := fmt.Sprintf("%v %v-%v", p.Days, p.From, p.To)
	if p.Zone != "" {
		text += " " + p.Zone
	}
	return text
}

// Parse reads "mon-fri 08:00-18:00 Europe/Berlin"; the zone may be missing. The error is an
// *invalid.Error with the field days, from, to or timezone.
func Parse(text string) (Period, error) {
	words := strings.Fields(text)
	if len(words) < 2 || len(words) > 3 {
		return Period{}, &invalid.Error{Value: text, Msg: "is no time of the week", Remedy: "write days, hours and perhaps a time zone: mon-fri 08:00-18:00 Europe/Berlin"}
	}
	from, to, ok := strings.Cut(words[1], "-")
	if !ok {
		return Period{}, &invalid.Error{Field: "to", Value: words[1], Msg: "is one time", Remedy: "write from and to: 08:00-18:00"}
	}
	return New(words[0], from, to, strings.Join(words[2:], ""))
}

// New reads a period from its parts. The error is as Parse's.
func New(days, from, to, zone string) (p Period, err error) {
	if p.Days, err = parseDays(days); err != nil {
		return Period{}, invalid.InField("days", err)
	}
	if p.From, err = ParseClock(from); err != nil {
		return Period{}, invalid.InField("from", err)
	}
	if p.From == midnight {
		return Period{}, &invalid.Error{Field: "from", Value: from, Msg: "is the end of a day", Remedy: "write 00:00, and the next day"}
	}
	if p.To, err = ParseClock(to); err != nil {
		return Period{}, invalid.InField("to", err)
	}
	if p.From == p.To {
		return Period{}, &invalid.Error{Field: "to", Value: to, Msg: "is when it begins", Remedy: "write 00:00 and 24:00 for a whole day"}
	}
	if zone != "" {
		if !IsZone(zone) {
			return Period{}, &invalid.Error{Field: "timezone", Value: zone, Msg: "no such time zone", Remedy: "write a name such as Europe/Berlin or UTC, or leave it out for the host's own"}
		}
	}
	p.Zone = zone
	return p, nil
}

// ParseClock reads a time of the day such as 08:00. The error is an *invalid.Error without a
// field.
func ParseClock(text string) (Clock, error) {
	wrong := &invalid.Error{Value: text, Msg: "is no time of the day", Remedy: "write hours and minutes, 00:00 to 24:00"}
	if len(text) != 5 || text[2] != ':' {
		return 0, wrong
	}
	var hours, minutes Clock
	for i, at := range []*Clock{&hours, &hours, nil, &minutes, &minutes} {
		if at == nil {
			continue
		}
		if text[i] < '0' || text[i] > '9' {
			return 0, wrong
		}
		*at = *at*10 + Clock(text[i]-'0')
	}
	if c := hours*60 + minutes; minutes < 60 && c <= midnight {
		return c, nil
	}
	return 0, wrong
}

func parseDays(text string) (days Days, err error) {
	if strings.EqualFold(text, "daily") {
		return everyDay, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.ToLower(strings.TrimSpace(part)), "-")
		if !isRange {
			last = first
		}
		from, to := slices.Index(dayNames, first), slices.Index(dayNames, last)
		if from < 0 || to < 0 {
			return 0, &invalid.Error{Value: text, Msg: "are no days", Remedy: "write days such as mon-fri or sat,sun, or daily"}
		}
		for day := from; ; day = (day + 1) % 7 { // fri-mon goes over the end of the week
			days |= 1 << day
			if day == to {
				break
			}
		}
	}
	return days, nil
}

// zones are the time zones that were asked for, by name: reading one takes a file.
var zones sync.Map

func load(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		zones.Store(name, zone)
	}
	return zone, err
}

// IsZone reports whether there is a time zone of that name.
func IsZone(name string) bool {
	_, err := load(name)
	return err == nil && name != "" && !strings.EqualFold(name, "local")
}

// Zone returns the time zone of a name, local for "".
func Zone(name string, local *time.Location) *time.Location {
	if name == "" {
		return local
	}
	if zone, err := load(name); err == nil {
		return zone
	}
	return local
}

// location returns the period's zone. One that was read exists.
func (p Period) location(local *time.Location) *time.Location { return Zone(p.Zone, local) }

// Text returns a moment as people read it: "Mon 2026-11-23 18:00 CET".
func Text(moment time.Time) string { return moment.Format("Mon 2006-01-02 15:04 MST") }

// span is the time from one moment to another, the latter excluded.
type span struct{ from, to time.Time }

// onDay returns when the period runs that begins on the day of a moment, and whether one does.
// A period without a zone is of the moment's own.
func (p Period) onDay(day time.Time) (span, bool) {
	if !p.Days.Has(day.Weekday()) {
		return span{}, false
	}
	y, m, d := day.Date()
	ends := d
	if p.To <= p.From {
		ends++
	}
	s := span{First(y, m, d, p.From, day.Location()), First(y, m, ends, p.To, day.Location())}
	return s, s.from.Before(s.to)
}

// First returns the first moment of a day at which clocks show c or more.
func First(y int, m time.Month, d int, c Clock, zone *time.Location) time.Time {
	t := time.Date(y, m, d, 0, int(c), 0, 0, zone)
	begins, ends := t.ZoneBounds()
	shown := func(t time.Time) int64 { // as if it were UTC
		_, offset := t.Zone()
		return t.Unix() + int64(offset)
	}
	want := time.Date(y, m, d, 0, int(c), 0, 0, time.UTC).Unix()
	switch {
	case shown(t) > want: // skipped, and t is behind the gap
		return begins
	case shown(t) < want: // skipped, and t is before it
		return ends
	}
	if !begins.IsZero() { // shown twice?
		_, before := begins.Add(-time.Nanosecond).Zone()
		_, now := t.Zone()
		if earlier := t.Add(-time.Duration(before-now) * time.Second); before > now && earlier.Before(begins) {
			return earlier
		}
	}
	return t
}

// Covers reports whether the period runs at a moment. A period without a zone is of the
// moment's own.
func (p Period) Covers(now time.Time) bool {
	day := now.In(p.location(now.Location()))
	for _, back := range []int{-1, 0} {
		if s, runs := p.onDay(noon(day, back)); runs && !now.Before(s.from) && now.Before(s.to) {
			return true
		}
	}
	return false
}

// noon returns 12:00 of the day of t, some days later: clocks show it once, on every day.
func noon(t time.Time, days int) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d+days, 12, 0, 0, 0, t.Location())
}

// Next returns the first moment after now at which one of the periods begins or ends; zero if
// there are none.
func Next(periods []Period, now time.Time) time.Time {
	var next time.Time
	for _, p := range periods {
		day := now.In(p.location(now.Location()))
		for days := -1; days <= 8; days++ {
			s, runs := p.onDay(noon(day, days))
			if !runs {
				continue
			}
			for _, at := range []time.Time{s.from, s.to} {
				if at.After(now) && (next.IsZero() || at.Before(next)) {
					next = at
				}
			}
		}
	}
	return next.In(now.Location())
}

// year is how far Moments looks: until every zone has changed its clocks twice.
const year = 366

// Moments returns now, and one moment for every other set of periods that runs at some time
// in the year to come, the earliest. Where all are in one zone, a week shows them all:
// changed clocks leave out a set, and make no new one.
func Moments(periods []Period, now time.Time) []time.Time {
	periods = slices.Clone(periods)
	slices.SortFunc(periods, func(a, b Period) int { return strings.Compare(a.String(), b.String()) })
	periods = slices.Compact(periods)
	moments := []time.Time{now}
	if len(periods) == 0 {
		return moments
	}
	days := 9
	if slices.ContainsFunc(periods, func(p Period) bool { return p.Zone != periods[0].Zone }) {
		days = year
	}
	type edge struct {
		at     time.Time
		period int
		begins bool
	}
	var edges []edge
	for i, p := range periods {
		day := now.In(p.location(now.Location()))
		for n := -1; n <= days; n++ {
			if s, runs := p.onDay(noon(day, n)); runs {
				edges = append(edges, edge{s.from, i, true}, edge{s.to, i, false})
			}
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return a.at.Compare(b.at) })
	runs := make([]byte, len(periods))
	seen := map[string]bool{}
	taken := false           // now's own set
	end := noon(now, days-1) // periods of later days are not among the edges
	for i, e := range edges {
		if e.at.After(end) {
			break
		}
		if !taken && e.at.After(now) {
			seen[string(runs)], taken = true, true
		}
		if e.begins {
			runs[e.period]++
		} else {
			runs[e.period]--
		}
		if i+1 < len(edges) && edges[i+1].at.Equal(e.at) {
			continue
		}
		if taken && !seen[string(runs)] {
			seen[string(runs)] = true
			moments = append(moments, e.at.In(now.Location()))
		}
	}
	return moments
}

// Together returns the pairs of periods that run at the same time at some moment of the year to
// come, the earlier in the list first. It looks at the year once: a look at two zones takes
// milliseconds.
func Together(periods []Period, now time.Time) map[[2]int]bool {
	pairs := map[[2]int]bool{}
	for _, at := range Moments(periods, now) {
		var run []int
		for i, p := range periods {
			if !p.Covers(at) {
				continue
			}
			for _, earlier := range run {
				pairs[[2]int{earlier, i}] = true
			}
			run = append(run, i)
		}
	}
	return pairs
}
