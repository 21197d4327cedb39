// SPDX-License-Identifier: Apache-2.0

// Package quota knows how much a workload or group may send and receive in a month, a week, a
// day or some hours, and when these begin. It is pure: the moment is always given.
//
//	q, err := quota.Parse("egress 500GB per month from 15 timezone Europe/Berlin then max 5mbit")
//	start, end := q.Period(now)
//	q.Reached(sent, received) // which directions are to be limited from here on?
//
// A period begins at the first moment of its day at which clocks in its zone show its hour. A
// month from the 31st begins on the last day of a month that is shorter.
//
// What it does not do: count (package agent/ledger) or limit (package plan).
package quota

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/core/bound"
	"weir/internal/core/invalid"
	"weir/internal/core/policy/times"
	"weir/internal/core/yamltree"
)

// Then is what becomes of a workload that has reached its quota.
type Then string

// What may become of it.
const (
	ThenMax   Then = "max"   // it has a max until the period ends
	ThenBlock Then = "block" // it has the least max that there is
	ThenTell  Then = "tell"  // it is told
)

// The lengths of a period; a number of hours is another.
const (
	Month = "month"
	Week  = "week"
	Day   = "day"
)

// hourly are the lengths in hours that divide a day.
var hourly = []int{1, 2, 3, 4, 6, 8, 12}

// Quota is how much a workload may move in each period. At least one of the sizes is given.
type Quota struct {
	Egress, Ingress, Total Size
	Per                    string // Month, Week, Day, or such as "12h"
	From                   string // of a month a day, of a week mon to sun, of a day a time; "" = its first
	Zone                   string // name of a time zone; "" = the host's own
	Then                   Then
	Max                    string // of ThenMax: an amount as package policy reads it
}

// WarnAt is the part of a quota at which a warning is due.
const WarnAt = 0.8

// parts are the names of the parts of a quota, in the order in which they are written.
var parts = []string{"egress", "ingress", "total", "per", "from", "timezone", "then"}

const remedy = "write sizes, a time and what then: egress 500GB per month then max 5mbit"

// Parse reads a line as String writes it, or a mapping in YAML or JSON:
//
//	{egress: 500GB, per: month, from: 15, timezone: Europe/Berlin, then: {max: 5mbit}}
//
// The error is an *invalid.Error; its field is such as "per".
func Parse(text string) (Quota, error) {
	if strings.HasPrefix(text, "{") {
		tree, err := yamltree.Parse(text, bound.Policy, bound.Levels)
		if err != nil {
			return Quota{}, &invalid.Error{Value: text, Msg: err.Error(), Remedy: remedy}
		}
		return From(tree)
	}
	given := map[string]string{}
	words := strings.Fields(text)
	for i := 0; i < len(words); {
		name := words[i]
		if !slices.Contains(parts, name) {
			return Quota{}, &invalid.Error{Value: name, Msg: "is no part of a quota", Remedy: remedy}
		}
		end := i + 1
		for end < len(words) && !slices.Contains(parts, words[end]) {
			end++
		}
		value := strings.Join(words[i+1:end], " ")
		if err := put(given, name, value); err != nil {
			return Quota{}, err
		}
		i = end
	}
	return read(given)
}

func put(given map[string]string, name, value string) error {
	if value == "" {
		return &invalid.Error{Field: name, Msg: "no value", Remedy: "write one behind it"}
	}
	if given[name] != "" {
		return &invalid.Error{Field: name, Value: value, Msg: "is there twice", Remedy: "write it once"}
	}
	given[name] = value
	return nil
}

// From reads a quota from a decoded tree: a mapping, or a line.
func From(tree any) (Quota, error) {
	if text, ok := tree.(string); ok {
		return Parse(text)
	}
	mapping, ok := tree.(yamltree.Mapping)
	if !ok {
		return Quota{}, &invalid.Error{Msg: yamltree.Describe(tree) + " where a quota is expected", Remedy: remedy}
	}
	given := map[string]string{}
	for _, e := range mapping {
		if !slices.Contains(parts, e.Key) {
			return Quota{}, &invalid.Error{Field: e.Key, Msg: "is no part of a quota", Remedy: "write " + strings.Join(parts, ", ")}
		}
		text, ok := e.Value.(string)
		if inner, is := e.Value.(yamltree.Mapping); is && e.Key == "then" && len(inner) == 1 && inner[0].Key == string(ThenMax) {
			if text, ok = inner[0].Value.(string); ok {
				text = "max " + text
			}
		}
		if !ok {
			return Quota{}, &invalid.Error{Field: e.Key, Msg: yamltree.Describe(e.Value) + " where a single value is expected", Remedy: remedy}
		}
		if err := put(given, e.Key, text); err != nil {
			return Quota{}, err
		}
	}
	return read(given)
}

// read makes a quota of its parts.
func read(given map[string]string) (q Quota, err error) {
	for name, at := range map[string]*Size{"egress": &q.Egress, "ingress": &q.Ingress, "total": &q.Total} {
		if text := given[name]; text != "" {
			if *at, err = ParseSize(text); err != nil {
				return q, invalid.InField(name, err)
			}
		}
	}
	if q.Egress+q.Ingress+q.Total == 0 {
		return q, &invalid.Error{Field: "egress", Msg: "no size", Remedy: "write at least one of egress, ingress, total: egress 500GB"}
	}
	if q.Per, err = readPer(given["per"]); err != nil {
		return q, err
	}
	if q.From, err = q.readFrom(given["from"]); err != nil {
		return q, err
	}
	if q.Zone = given["timezone"]; q.Zone != "" && !times.IsZone(q.Zone) {
		return q, &invalid.Error{Field: "timezone", Value: q.Zone, Msg: "no such time zone", Remedy: "write a name such as Europe/Berlin or UTC, or leave it out for the host's own"}
	}
	word, rate, _ := strings.Cut(given["then"], " ")
	q.Then, q.Max = Then(word), strings.TrimSpace(rate)
	switch {
	case q.Then == ThenMax && q.Max != "", (q.Then == ThenBlock || q.Then == ThenTell) && q.Max == "":
		return q, nil
	case given["then"] == "":
		return q, &invalid.Error{Field: "then", Msg: "is missing", Remedy: "write what becomes of a workload that reaches it: then max 5mbit, then block, or then tell"}
	}
	return q, &invalid.Error{Field: "then", Value: given["then"], Msg: "not known", Remedy: "write max and a rate, block, or tell"}
}

func readPer(text string) (string, error) {
	hours, isHours := strings.CutSuffix(text, "h")
	n, err := strconv.Atoi(hours)
	switch {
	case text == Month, text == Week, text == Day:
		return text, nil
	case isHours && err == nil && slices.Contains(hourly, n):
		return text, nil
	case text == "":
		return "", &invalid.Error{Field: "per", Msg: "is missing", Remedy: "write month, week, day, or hours such as 12h"}
	}
	return "", &invalid.Error{Field: "per", Value: text, Msg: "not known", Remedy: "write month, week, day, or hours that divide a day: 1h, 2h, 3h, 4h, 6h, 8h, 12h"}
}

var weekdays = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

func (q Quota) readFrom(text string) (string, error) {
	wrong := &invalid.Error{Field: "from", Value: text}
	switch {
	case text == "":
		return "", nil
	case q.Per == Month:
		if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= 31 {
			return strconv.Itoa(n), nil
		}
		wrong.Msg, wrong.Remedy = "no day of a month", "write 1 to 31; a month that is shorter begins on its last day"
	case q.Per == Week:
		if slices.Contains(weekdays, strings.ToLower(text)) {
			return strings.ToLower(text), nil
		}
		wrong.Msg, wrong.Remedy = "no day of a week", "write one of "+strings.Join(weekdays, ", ")
	case q.Per == Day:
		c, err := times.ParseClock(text)
		if err == nil {
			return c.String(), nil
		}
		return "", invalid.InField("from", err)
	default:
		wrong.Msg, wrong.Remedy = "hours begin at midnight", "leave it out, or write per day"
	}
	return "", wrong
}

// String returns the quota as Parse reads it.
func (q Quota) String() string {
	text := ""
	add := func(name, value string) {
		if value != "" {
			text += " " + name + " " + value
		}
	}
	add("egress", q.Egress.text())
	add("ingress", q.Ingress.text())
	add("total", q.Total.text())
	add("per", q.Per)
	add("from", q.From)
	add("timezone", q.Zone)
	add("then", strings.TrimSpace(string(q.Then)+" "+q.Max))
	return strings.TrimSpace(text)
}

// Standing is how far a workload has come with its quota in the present period.
type Standing struct {
	Quota
	Start, End     time.Time // of the period
	Sent, Received uint64    // in it
}

// Reach returns which directions are to be limited now.
func (s Standing) Reach() Reach { return s.Reached(s.Sent, s.Received) }

// Any reports whether any direction is to be limited.
func (r Reach) Any() bool { return r.Egress || r.Ingress }

// Text returns the standing as sentences.
func (s Standing) Text() string {
	until := times.Text(s.End)
	var used []string
	for _, x := range s.sizes() {
		if x.limit > 0 {
			used = append(used, fmt.Sprintf("%s of %s of %s", approx(x.used), approx(uint64(x.limit)), x.name))
		}
	}
	text := fmt.Sprintf("Its quota (per %s): %s used since %s.", s.Per, strings.Join(used, ", "), times.Text(s.Start))
	if !s.Reach().Any() {
		left, _ := s.Left(s.Sent, s.Received)
		return text + fmt.Sprintf(" %s are left until %s.", approx(uint64(left)), until)
	}
	return text + " It is reached: " + s.InForce() + " until " + until + "."
}

// InForce returns what holds because the quota is reached, "" if it is not.
func (s Standing) InForce() string {
	r := s.Reach()
	where := ""
	switch {
	case !r.Any():
		return ""
	case !r.Ingress:
		where = " of egress"
	case !r.Egress:
		where = " of ingress"
	}
	switch s.Then {
	case ThenMax:
		return "a max" + where + " of " + s.Max
	case ThenBlock:
		return "the least max" + where + " that there is"
	}
	return "nothing is limited"
}

// measured is one of the sizes of a quota, and what was used of it.
type measured struct {
	name  string
	limit Size
	used  uint64
}

func (s Standing) sizes() []measured { return s.Quota.sizes(s.Sent, s.Received) }

func (q Quota) sizes(sent, received uint64) []measured {
	return []measured{{"egress", q.Egress, sent}, {"ingress", q.Ingress, received}, {"total", q.Total, sent + received}}
}

// approx returns an amount for people, with up to four digits: 88.25 GB.
func approx(bytes uint64) string {
	for _, u := range units[:5] {
		if bytes >= uint64(u.size) {
			return strconv.FormatFloat(float64(bytes)/float64(u.size), 'g', 4, 64) + " " + u.name
		}
	}
	return strconv.FormatUint(bytes, 10) + " B"
}

// Reach says which directions have reached a quota, and so may be limited.
type Reach struct{ Egress, Ingress bool }

// Reached returns which directions are to be limited once so many bytes were sent and received.
func (q Quota) Reached(sent, received uint64) Reach {
	total := q.Total.upTo(sent + received)
	return Reach{Egress: total || q.Egress.upTo(sent), Ingress: total || q.Ingress.upTo(received)}
}

// Part returns the largest part of one of the sizes that was used: 1 is all of it.
func (q Quota) Part(sent, received uint64) float64 {
	return max(q.Egress.part(sent), q.Ingress.part(received), q.Total.part(sent+received))
}

// Left returns the bytes until the first of the sizes is reached that is not reached yet, and
// that size; 0 if there is none.
func (q Quota) Left(sent, received uint64) (left, of Size) {
	for _, x := range q.sizes(sent, received) {
		if x.limit > Size(x.used) && (of == 0 || x.limit-Size(x.used) < left) {
			left, of = x.limit-Size(x.used), x.limit
		}
	}
	return left, of
}

// Period returns when the period of a moment began and when it ends. A quota without a zone is
// of the moment's own.
func (q Quota) Period(now time.Time) (start, end time.Time) {
	zone := times.Zone(q.Zone, now.Location())
	y, m, d := now.In(zone).Date()
	var begins []time.Time
	at := func(y int, m time.Month, d int, c times.Clock) {
		begins = append(begins, times.First(y, m, d, c, zone))
	}
	switch q.Per {
	case Month:
		day, _ := strconv.Atoi(q.From) // "" is 0
		for n := -1; n <= 2; n++ {
			first := time.Date(y, m+time.Month(n), 1, 12, 0, 0, 0, time.UTC)
			last := first.AddDate(0, 1, -1).Day()
			at(first.Year(), first.Month(), min(max(day, 1), last), 0)
		}
	case Week:
		begin := time.Weekday((max(slices.Index(weekdays, q.From), 0) + 1) % 7)
		for n := -8; n <= 8; n++ {
			if day := time.Date(y, m, d+n, 12, 0, 0, 0, time.UTC); day.Weekday() == begin {
				at(day.Year(), day.Month(), day.Day(), 0)
			}
		}
	case Day:
		c, _ := times.ParseClock(q.From) // "" is midnight
		for n := -2; n <= 2; n++ {
			at(y, m, d+n, c)
		}
	default:
		hours, _ := strconv.Atoi(strings.TrimSuffix(q.Per, "h")) // was checked
		for n := -1; n <= 1; n++ {
			for hour := 0; hour < 24; hour += max(hours, 1) {
				at(y, m, d+n, times.Clock(60*hour))
			}
		}
	}
	for _, b := range begins { // in order
		if b.After(now) {
			return start.In(now.Location()), b.In(now.Location())
		}
		start = b
	}
	return start.In(now.Location()), start.In(now.Location())
}

// Size is an amount of data in bytes.
type Size uint64

// maxSize bounds a size, so that sums do not overflow.
const maxSize = Size(1e18)

type unit struct {
	name string
	size Size
}

var units = []unit{
	{"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3},
	{"PiB", 1 << 50}, {"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1},
}

// ParseSize reads 500GB, 1.5 TB, 10GiB, or a number of bytes.
func ParseSize(text string) (Size, error) {
	wrong := &invalid.Error{Value: text, Msg: "no amount of data", Remedy: "write bytes with a unit: 500MB, 1.5TB, 10GiB"}
	number, unit := strings.TrimSpace(text), Size(1)
	if lower := strings.ToLower(number); strings.HasSuffix(lower, "bit") || strings.HasSuffix(lower, "bps") {
		wrong.Msg = "a rate, or bits"
		return 0, wrong
	}
	for _, u := range units {
		if rest, ok := strings.CutSuffix(strings.ToLower(number), strings.ToLower(u.name)); ok {
			number, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || strings.Trim(number, "0123456789.") != "" {
		return 0, wrong
	}
	if value *= float64(unit); value > float64(maxSize) {
		wrong.Msg, wrong.Remedy = "too much", fmt.Sprintf("write %v or less", maxSize)
		return 0, wrong
	}
	if value < 1 {
		wrong.Msg, wrong.Remedy = "a quota of 0", "write a size such as 500GB, or none to have no quota"
		return 0, wrong
	}
	return Size(math.Round(value)), nil
}

// String returns the size exactly, in the largest unit of which it is a multiple: 500GB, 10GiB.
func (s Size) String() string {
	i := slices.IndexFunc(units, func(u unit) bool { return s >= u.size && s%u.size == 0 })
	if i < 0 {
		return "0B"
	}
	return strconv.FormatUint(uint64(s/units[i].size), 10) + units[i].name
}

func (s Size) text() string {
	if s == 0 {
		return ""
	}
	return s.String()
}

func (s Size) upTo(used uint64) bool { return s > 0 && used >= uint64(s) }

func (s Size) part(used uint64) float64 {
	if s == 0 {
		return 0
	}
	return float64(used) / float64(s)
}
