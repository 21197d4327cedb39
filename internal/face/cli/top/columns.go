// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"slices"

	"weir/internal/api"
)

// unit is the unit of all rates of one link: the same for all rows, so that a column can
// be compared at a glance.
type unit struct {
	name   string
	bps    float64
	digits int // after the point
}

// unitFor chooses the unit in which the link's capacity has two to four digits
// before the point.
func unitFor(capacity uint64) unit {
	switch {
	case capacity >= 10e9:
		return unit{"Gbit/s", 1e9, 3}
	case capacity >= 10e6:
		return unit{"Mbit/s", 1e6, 1}
	}
	return unit{"kbit/s", 1e3, 0}
}

func (u unit) text(bps float64) string { return fmt.Sprintf("%.*f", u.digits, bps/u.bps) }

// limit returns a min or max, "-" for none.
func (u unit) limit(bps uint64) string {
	if bps == 0 {
		return "-"
	}
	return u.text(float64(bps))
}

// column is one column of the table between the name and the history.
type column struct {
	title string
	width int
	keep  int // columns with a higher number are the first to go when it gets narrow
	cell  func(r row, u unit) string
	mood  func(r row) mood
}

// mood is the meaning of a cell beyond its text, shown by its colour.
type mood int

const (
	plain mood = iota
	good
	warn
	bad
	dim
)

var columns = []column{
	{"RATE", 7, 0, func(r row, u unit) string { return u.text(r.link.RateBps) }, rateMood},
	{"SHARE", 5, 1, func(r row, _ unit) string { return fmt.Sprintf("%.0f %%", r.link.Share*100) }, nil},
	{"IDEAL", 7, 2, func(r row, u unit) string { return u.text(r.link.IdealBps) }, nil},
	{"P99", 8, 3, func(r row, _ unit) string { return r.link.Delay.P99Text() }, noneMood(func(l api.WorkloadLink) uint64 {
		if l.Delay == nil {
			return 0
		}
		return l.Delay.Packets
	})},
	{"KEPT", 7, 4, keptText, keptMood},
	{"MIN", 7, 6, func(r row, u unit) string { return u.limit(r.link.MinBps) }, noneMood(minOf)},
	{"MAX", 7, 7, func(r row, u unit) string { return u.limit(r.link.MaxBps) }, noneMood(maxOf)},
	{"WEIGHT", 6, 9, func(r row, _ unit) string { return fmt.Sprint(r.workload.Policy.In(r.link.Direction).Weight) }, nil},
	{"BACKLOG", 9, 5, func(r row, _ unit) string { return fmt.Sprintf("%d pkt", r.link.BacklogPackets) }, nil},
	{"DROPS/S", 7, 8, dropsText, dropsMood},
}

// reservation is a column for links on which there is any.
var reservation = column{"GOODPUT/RESERVE", 15, 3, func(r row, u unit) string {
	switch {
	case r.link.ReserveBps == 0:
		return "-"
	case r.link.GoodputBps == nil:
		return "?/" + u.text(float64(r.link.ReserveBps))
	}
	return u.text(*r.link.GoodputBps) + "/" + u.text(float64(r.link.ReserveBps))
}, reservationMood}

// reservationMood returns the mood of a row's reservation: a settled one is good, one
// that does not get all that it asks for is a warning, and a row without one stays in the
// background.
func reservationMood(r row) mood {
	switch r.link.Control {
	case "":
		return dim
	case "settled":
		return good
	case "moving", "bounded", "unmeasured":
		return warn
	}
	return plain
}

// columnsFor returns the columns for these rows.
func columnsFor(rows []row) []column {
	if !slices.ContainsFunc(rows, func(r row) bool { return r.link.ReserveBps != 0 }) {
		return columns
	}
	var list []column
	for _, c := range columns {
		if c.title == "MIN" {
			list = append(list, reservation)
		}
		if c.keep >= reservation.keep {
			c.keep++
		}
		list = append(list, c)
	}
	return list
}

// keptText returns the promise score; "-" where nothing was wanted in the last hour.
func keptText(r row, _ unit) string {
	if r.link.Score == nil {
		return "-"
	}
	return r.link.Score.KeptText()
}

func keptMood(r row) mood {
	switch {
	case r.link.Score == nil:
		return dim
	case r.link.Score.Kept < keptWell:
		return warn
	}
	return good
}

// keptWell is the promise score from which on a workload is not pointed out.
const keptWell = 0.99

func minOf(l api.WorkloadLink) uint64 { return l.MinBps }
func maxOf(l api.WorkloadLink) uint64 { return l.MaxBps }

func dropsText(r row, _ unit) string {
	if r.link.DropsPerSecond == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3g", r.link.DropsPerSecond)
}

func dropsMood(r row) mood {
	if r.link.DropsPerSecond > 0 {
		return bad
	}
	return dim
}

// tolerance is how far below its ideal a workload with a backlog may be before
// it is pointed out; less is noise of a one-second sample.
const tolerance = 0.05

func rateMood(r row) mood {
	switch {
	case r.link.RateBps == 0:
		return dim
	case r.link.BacklogPackets > 0 && r.link.RateBps < (1-tolerance)*r.link.IdealBps:
		return warn
	}
	return good
}

// noneMood keeps a value that is not set in the background.
func noneMood(value func(api.WorkloadLink) uint64) func(row) mood {
	return func(r row) mood {
		if value(r.link) == 0 {
			return dim
		}
		return plain
	}
}

// layout is the division of a width.
type layout struct {
	name    int
	columns []column
	spark   int
}

const (
	marker       = 2 // in front of the name
	gap          = 2 // between columns
	nameMin      = 8
	nameMax      = 32
	sparkMin     = 10
	sparkAtLeast = 4 // from so many columns on, the next gives way to the history
)

// fit chooses the columns for a width, given the longest name. Names get the width that
// they need up to nameMax; the history gets the rest.
func fit(width, longestName int, columns []column) layout {
	name := min(max(longestName, nameMin), nameMax)
	all := layout{name: name, columns: columns}
	for keep := len(columns); keep > 0; keep-- {
		all.columns = keeping(columns, keep)
		room := width - all.width()
		needed := 0
		if keep >= sparkAtLeast {
			needed = gap + sparkMin
		}
		if room >= needed {
			if room >= gap+sparkMin {
				all.spark = min(room-gap, historyLength)
			}
			return all
		}
	}
	all.columns = keeping(columns, 1)
	all.name = max(width-marker-gap-all.columns[0].width, 1)
	return all
}

// width of everything but the history.
func (l layout) width() int {
	w := marker + l.name
	for _, c := range l.columns {
		w += gap + c.width
	}
	return w
}

// keeping returns the n columns that matter most, in their order.
func keeping(columns []column, n int) []column {
	var out []column
	for _, c := range columns {
		if c.keep < n {
			out = append(out, c)
		}
	}
	return out
}
