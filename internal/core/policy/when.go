// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/core/bound"
	"weir/internal/core/invalid"
	"weir/internal/core/policy/times"
	"weir/internal/core/yamltree"
)

// Scheduled is what a policy says in a part of the week.
type Scheduled struct {
	times.Period
	To Change // of fields that are Timed
}

// String returns it as ParseWhen reads it: "mon-fri 08:00-18:00 Europe/Berlin weight 8".
func (s Scheduled) String() string {
	text := s.Period.String()
	for _, f := range fields {
		if s.To.Gives(f.Name) {
			text += " " + f.Name + " " + f.Write(s.To.to)
		}
	}
	return text
}

// maxPeriods bounds the periods of one policy: every decision looks at all of them.
const maxPeriods = 16

const whenRemedy = "write days, hours, perhaps a time zone, and fields: mon-fri 08:00-18:00 Europe/Berlin weight 8; more behind a semicolon"

// ParseWhen reads what a policy says at times: a line such as
//
//	mon-fri 08:00-18:00 Europe/Berlin weight 8; sat-sun 22:00-06:00 max 5mbit
//
// or a list in YAML or JSON:
//
//	[{days: mon-fri, from: "08:00", to: "18:00", timezone: Europe/Berlin, weight: 8}]
//
// A period that ends before it begins ends on the next day. "none", or nothing, is none. The
// error is an *invalid.Error; its field is such as "when[0].timezone".
func ParseWhen(text string) ([]Scheduled, error) {
	if text = strings.TrimSpace(text); text == "" || strings.EqualFold(text, "none") {
		return nil, nil
	}
	if strings.ContainsAny(text[:1], "[{-") {
		tree, err := yamltree.Parse(text, bound.Policy, bound.Levels)
		if err != nil {
			return nil, &invalid.Error{Field: "when", Value: text, Msg: err.Error(), Remedy: whenRemedy}
		}
		return WhenFrom(tree)
	}
	var list []Scheduled
	parts := strings.Split(strings.TrimSuffix(text, ";"), ";")
	if err := fewPeriods(len(parts)); err != nil { // reading one may open the file of a time zone
		return nil, err
	}
	for i, part := range parts {
		s, err := parseScheduled(part)
		if err != nil {
			return nil, atPeriod(i, err)
		}
		list = append(list, s)
	}
	return list, checkPeriods(list)
}

// atPeriod names the period that an error is about.
func atPeriod(i int, err error) error { return invalid.Within(fmt.Sprintf("when[%d]", i), err) }

// parseScheduled reads "mon-fri 08:00-18:00 weight 8".
func parseScheduled(text string) (s Scheduled, err error) {
	words := strings.Fields(text)
	end := slices.IndexFunc(words, func(w string) bool { return slices.Contains(timedFields(), w) })
	if end < 0 {
		return s, &invalid.Error{Value: strings.TrimSpace(text), Msg: "no field that differs then", Remedy: "add at least one of " + strings.Join(timedFields(), ", ")}
	}
	if s.Period, err = times.Parse(strings.Join(words[:end], " ")); err != nil {
		return s, err
	}
	for pair := range slices.Chunk(words[end:], 2) {
		if len(pair) < 2 {
			return s, &invalid.Error{Field: pair[0], Msg: "no value", Remedy: "write one behind it"}
		}
		if err := s.put(pair[0], pair[1]); err != nil {
			return s, err
		}
	}
	return s, nil
}

// put sets a field that may be timed.
func (s *Scheduled) put(field, text string) error {
	if !slices.Contains(timedFields(), field) {
		return &invalid.Error{Field: field, Value: text, Msg: "cannot differ at times", Remedy: DidYouMean(field, timedFields())}
	}
	if s.To.Gives(field) {
		return &invalid.Error{Field: field, Value: text, Msg: "is there twice", Remedy: "write it once"}
	}
	return s.To.Put(field, text)
}

// timedFields are the names of the fields that may differ at times.
func timedFields() []string {
	var names []string
	for _, f := range fields {
		if f.Timed {
			names = append(names, f.Name)
		}
	}
	return names
}

// WhenFrom reads what a policy says at times from a decoded tree, a list of mappings or one.
// The error is as ParseWhen's.
func WhenFrom(tree any) ([]Scheduled, error) {
	items, ok := tree.([]any)
	if !ok {
		items = []any{tree}
	}
	if err := fewPeriods(len(items)); err != nil {
		return nil, err
	}
	var list []Scheduled
	for i, item := range items {
		s, err := scheduledFrom(item)
		if err != nil {
			return nil, atPeriod(i, err)
		}
		list = append(list, s)
	}
	return list, checkPeriods(list)
}

func scheduledFrom(item any) (s Scheduled, err error) {
	if text, ok := item.(string); ok {
		return parseScheduled(text)
	}
	mapping, ok := item.(yamltree.Mapping)
	if !ok {
		return s, &invalid.Error{Msg: yamltree.Describe(item) + " where fields are expected", Remedy: whenRemedy}
	}
	parts := map[string]string{"days": "daily"}
	names := []string{"days", "from", "to", "timezone"}
	for _, e := range mapping {
		text, ok := e.Value.(string)
		if !ok {
			return s, &invalid.Error{Field: e.Key, Msg: yamltree.Describe(e.Value) + " where a single value is expected", Remedy: "write one"}
		}
		switch {
		case slices.Contains(names, e.Key):
			parts[e.Key] = text
		case slices.Contains(timedFields(), e.Key):
			err = s.put(e.Key, text)
		default:
			err = &invalid.Error{Field: e.Key, Value: text, Msg: "no such field of a period", Remedy: DidYouMean(e.Key, append(names, timedFields()...))}
		}
		if err != nil {
			return s, err
		}
	}
	for _, name := range []string{"from", "to"} {
		if parts[name] == "" {
			return s, &invalid.Error{Field: name, Msg: "is missing", Remedy: `write a time of the day: "08:00"`}
		}
	}
	if s.To.Empty() {
		return s, &invalid.Error{Msg: "no field that differs then", Remedy: "add at least one of " + strings.Join(timedFields(), ", ")}
	}
	s.Period, err = times.New(parts["days"], parts["from"], parts["to"], parts["timezone"])
	return s, err
}

// fewPeriods refuses more periods than a policy may have.
func fewPeriods(count int) error {
	if count <= maxPeriods {
		return nil
	}
	return &invalid.Error{Field: "when", Msg: fmt.Sprintf("%d periods, %d are the most", count, maxPeriods), Remedy: "write fewer"}
}

// checkPeriods refuses two of the same field that run at the same time.
// Where one has no zone, clocks there are taken to show UTC.
func checkPeriods(list []Scheduled) error {
	together := times.Together(Policy{When: list}.Periods(false), time.Unix(0, 0).UTC())
	for i, s := range list {
		for j, earlier := range list[:i] {
			field := slices.IndexFunc(timedFields(), func(f string) bool { return s.To.Gives(f) && earlier.To.Gives(f) })
			if field >= 0 && together[[2]int{j, i}] {
				return atPeriod(i, &invalid.Error{Value: s.Period.String(), Msg: fmt.Sprintf("overlaps %s, which says the %s, too", earlier.Period, timedFields()[field]),
					Remedy: "give each moment to one of them"})
			}
		}
	}
	return nil
}

// writeWhen returns what a policy says at times as ParseWhen reads it.
func writeWhen(list []Scheduled) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = s.String()
	}
	return strings.Join(parts, "; ")
}

// At returns the policy that is in force at a moment: what it says of that moment in place of
// what it says otherwise. Periods without a zone are of the moment's own.
func (p Policy) At(now time.Time) Policy {
	for _, s := range p.When {
		if s.Covers(now) {
			p = s.To.Apply(p)
		}
	}
	if p.Ingress != nil {
		p.Ingress = new(p.Ingress.At(now))
	}
	return p
}

// TimedAt returns the names in AllNames of the fields that a policy says of that very moment.
func (p Policy) TimedAt(now time.Time) []string {
	var names []string
	for _, s := range p.When {
		if s.Covers(now) {
			names = append(names, s.To.Given()...)
		}
	}
	if p.Ingress != nil {
		for _, name := range p.Ingress.TimedAt(now) {
			names = append(names, ingressPrefix+name)
		}
	}
	return names
}

// Periods returns the parts of the week in which the policy differs; with floors those alone
// in which its min or max does.
func (p Policy) Periods(floors bool) []times.Period {
	var list []times.Period
	for _, s := range p.When {
		if !floors || s.To.Gives("min") || s.To.Gives("max") {
			list = append(list, s.Period)
		}
	}
	if p.Ingress != nil {
		list = append(list, p.Ingress.Periods(floors)...)
	}
	return list
}

// checkWhen reports a mistake in what holds at some time.
func (p Policy) checkWhen() error {
	for i, s := range p.When {
		then := s.To.Apply(p)
		then.When, then.Ingress = nil, nil
		if err := then.Check(); err != nil && p.without().Check() == nil {
			return atPeriod(i, err)
		}
	}
	return nil
}

// without returns the policy without what it says at times.
func (p Policy) without() Policy {
	p.When, p.Ingress = nil, nil
	return p
}
