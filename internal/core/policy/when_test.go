// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"testing"
	"time"

	"weir/internal/core/invalid"
)

func TestParseWhen(t *testing.T) {
	const line = "mon-fri 08:00-18:00 Europe/Berlin weight 8 min 20mbit; sat-sun 22:00-06:00 max 5mbit"
	for text, want := range map[string]string{
		line: line,
		`[{days: mon-fri, from: "08:00", to: "18:00", timezone: Europe/Berlin, weight: 8, min: 20 Mbit/s}, sat-sun 22:00-06:00 max 5M]`: line,
		`[{"days":"mon-fri","from":"08:00","to":"18:00","weight":8}]`:                                                                   "mon-fri 08:00-18:00 weight 8",
		`{from: 00:00, to: 24:00, max: none}`:                                                                                           "daily 00:00-24:00 max none",
		"none":                                                                                                                          "", "": "",
		"mon 08:00-10:00 weight 2; mon 09:00-11:00 max 5mbit;": "mon 08:00-10:00 weight 2; mon 09:00-11:00 max 5mbit",
		// The latter begins when the former ends, also where clocks skip both.
		"sun 01:00-02:30 Europe/Berlin weight 2; sun 02:30-05:00 Europe/Berlin weight 3": "sun 01:00-02:30 Europe/Berlin weight 2; sun 02:30-05:00 Europe/Berlin weight 3",
	} {
		list, err := ParseWhen(text)
		if got := writeWhen(list); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestWrongTimes(t *testing.T) {
	many := ""
	for range maxPeriods + 1 {
		many += "mon 01:00-02:00 weight 2;"
	}
	for text, want := range map[string]string{
		"weight 8":                                         "when[0]",
		"mon 08:00-18:00":                                  "when[0]",
		"mon 08:00-18:00 weight":                           "when[0].weight",
		"mon 08:00-18:00 weight 0":                         "when[0].weight",
		"mon 08:00-18:00 min 20m":                          "when[0].min",
		"mon 08:00-18:00 weight 2 weight 3":                "when[0].weight",
		"mon 08:00-18:00 weight 2 discipline llq":          "when[0].discipline",
		"mon 08:00-18:00 Mars/Base weight 2":               "when[0].timezone",
		"xyz 08:00-18:00 weight 2":                         "when[0].days",
		"mon 8-18 weight 2":                                "when[0].from",
		"mon 08:00-25:00 weight 2":                         "when[0].to",
		"mon 08:00-18:00 weight 2; tue weight 3":           "when[1]",
		"[{from: 08:00, to: 18:00}]":                       "when[0]",
		"[{from: 08:00, weight: 2}]":                       "when[0].to",
		"[{from: 08:00, to: 18:00, weight: [2]}]":          "when[0].weight",
		"[{from: 08:00, to: 18:00, wieght: 2}]":            "when[0].wieght",
		"[{from: 08:00, to: 18:00, zone: UTC, weight: 2}]": "when[0].zone",
		"[[]]": "when[0]",
		"[{":   "when",
		many:   "when",
		"mon-fri 08:00-18:00 weight 2; fri-sat 17:00-20:00 weight 3":           "when[1]",
		"sat 22:00-06:00 max 1mbit; sun 05:00-07:00 max 2mbit":                 "when[1]",
		"mon 08:00-09:00 Europe/Berlin weight 2; mon 07:00-08:00 UTC weight 3": "when[1]", // in winter
	} {
		_, err := ParseWhen(text)
		mistake, ok := errors.AsType[*invalid.Error](err)
		if !ok || mistake.Field != want || mistake.Remedy == "" {
			t.Errorf("%s: %v, want a mistake in %s with a remedy", text, err, want)
		}
	}
}

func TestAt(t *testing.T) {
	p := MustChange("weight", "3", "max", "50mbit", "when", "mon 08:00-18:00 UTC weight 8; mon 12:00-13:00 UTC max none",
		"ingress.weight", "2", "ingress.when", "mon 17:00-19:00 UTC weight 4").Apply(Default())
	for at, want := range map[string][3]uint64{ // weight, max, weight of ingress
		"07:59": {3, 50e6, 2}, "08:00": {8, 50e6, 2}, "12:30": {8, 0, 2}, "17:30": {8, 50e6, 4}, "18:00": {3, 50e6, 4}, "19:00": {3, 50e6, 2},
	} {
		now, err := time.Parse("2006-01-02 15:04", "2026-11-23 "+at)
		if err != nil {
			t.Fatal(err)
		}
		in := p.At(now)
		if got := [3]uint64{uint64(in.Weight), uint64(in.Max.Rate), uint64(in.Ingress.Weight)}; got != want {
			t.Errorf("at %s: %v, want %v", at, got, want)
		}
		if p.Weight != 3 || p.Ingress.Weight != 2 {
			t.Fatalf("at %s: the policy itself was changed", at)
		}
	}
}

// What holds at some time is checked beside the rest.
func TestTimesAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"mon 08:00-18:00 min 60mbit":                         "when[0].min",
		"mon 08:00-18:00 max 10mbit":                         "when[0].min",
		"mon 08:00-18:00 min 60mbit max 70mbit":              "",
		"mon 08:00-18:00 max none; tue 08:00-18:00 weight 2": "",
	} {
		err := MustChange("min", "20mbit", "max", "50mbit", "when", text).Check()
		mistake, _ := errors.AsType[*invalid.Error](err)
		if want == "" && err != nil || want != "" && (mistake == nil || mistake.Field != want) {
			t.Errorf("%s: %v, want a mistake in %q", text, err, want)
		}
	}
}
