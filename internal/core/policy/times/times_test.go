// SPDX-License-Identifier: Apache-2.0

package times_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/core/invalid"
	"weir/internal/core/policy/times"
)

func parse(t testing.TB, text string) times.Period {
	t.Helper()
	p, err := times.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// runs returns the minutes of some hours, from a moment on, in which the period runs, as
// spans in UTC.
func runs(p times.Period, from time.Time, hours int) (text string) {
	was := false
	for m := range hours*60 + 1 {
		at := from.Add(time.Duration(m) * time.Minute)
		if is := p.Covers(at); is != was {
			text += map[bool]string{true: " ", false: "-"}[is] + at.UTC().Format("02.15:04")
			was = is
		}
	}
	return text
}

// What clocks do that are put forward or back, in both hemispheres.
func TestDaylightSaving(t *testing.T) {
	for _, test := range []struct{ name, period, from, want string }{
		{"summer", "mon 08:00-18:00 Europe/Berlin", "2026-07-06T00:00Z", " 06.06:00-06.16:00"},
		{"winter", "mon 08:00-18:00 Europe/Berlin", "2026-12-07T00:00Z", " 07.07:00-07.17:00"},
		{"over midnight", "sun 22:00-06:00 Europe/Berlin", "2026-07-05T12:00Z", " 05.20:00-06.04:00"},
		// 29 March: 02:00 becomes 03:00 at 01:00 UTC.
		{"begins in the skipped hour", "sun 02:30-05:00 Europe/Berlin", "2026-03-28T20:00Z", " 29.01:00-29.03:00"},
		{"ends in the skipped hour", "sun 00:30-02:30 Europe/Berlin", "2026-03-28T20:00Z", " 28.23:30-29.01:00"},
		{"is skipped", "sun 02:10-02:50 Europe/Berlin", "2026-03-28T20:00Z", ""},
		{"night that is an hour shorter", "sat 22:00-06:00 Europe/Berlin", "2026-03-28T12:00Z", " 28.21:00-29.04:00"},
		// 25 October: 03:00 becomes 02:00 at 01:00 UTC.
		{"begins in the repeated hour", "sun 02:30-05:00 Europe/Berlin", "2026-10-24T20:00Z", " 25.00:30-25.04:00"},
		{"ends in the repeated hour", "sun 00:30-02:30 Europe/Berlin", "2026-10-24T20:00Z", " 24.22:30-25.00:30"},
		{"night that is an hour longer", "sat 22:00-06:00 Europe/Berlin", "2026-10-24T12:00Z", " 24.20:00-25.05:00"},
		// In Sydney 4 October is skipped at 16:00 UTC of the 3rd, 5 April repeated at 16:00
		// of the 4th.
		{"southern spring", "sun 02:30-05:00 Australia/Sydney", "2026-10-03T10:00Z", " 03.16:00-03.18:00"},
		{"southern autumn", "sun 02:30-05:00 Australia/Sydney", "2026-04-04T10:00Z", " 04.15:30-04.19:00"},
		{"half an hour", "sun 01:45-03:00 Australia/Lord_Howe", "2026-04-04T10:00Z", " 04.14:45-04.16:30"},
		{"clocks that skip midnight", "fri 00:00-01:30 Africa/Cairo", "2026-04-23T12:00Z", " 23.22:00-23.22:30"},
		{"the moment's own zone", "mon 08:00-09:00", "2026-07-06T00:00Z", " 06.08:00-06.09:00"},
		{"a whole day", "tue 00:00-24:00 UTC", "2026-07-06T00:00Z", " 07.00:00-08.00:00"},
		{"days over the week's end", "sat-mon 12:00-13:00 UTC", "2026-07-06T00:00Z", " 06.12:00-06.13:00"},
	} {
		from, err := time.Parse("2006-01-02T15:04Z07:00", test.from)
		if err != nil {
			t.Fatal(err)
		}
		if got := runs(parse(t, test.period), from, 48); got != test.want {
			t.Errorf("%s: %s runs%s, want%s", test.name, test.period, got, test.want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"mon-fri 08:00-18:00 Europe/Berlin": "mon-fri 08:00-18:00 Europe/Berlin",
		"Sat,Sun 00:00-24:00":               "sat-sun 00:00-24:00",
		"mon,wed,fri-sun 22:00-06:00 UTC":   "mon,wed,fri-sun 22:00-06:00 UTC",
		"mon-sun 01:00-02:00":               "daily 01:00-02:00",
		"sun-mon 01:00-02:00":               "mon,sun 01:00-02:00",
	} {
		if got := parse(t, text).String(); got != want {
			t.Errorf("%s is read as %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"mon-fri 08:00":               "to: 08:00",
		"workdays 08:00-09:00":        "days: workdays",
		"mon 8:00-09:00":              "from: 8:00",
		"mon 08:60-09:00":             "from: 08:60",
		"mon 24:00-09:00":             "from: 24:00",
		"mon 08:00-24:01":             "to: 24:01",
		"mon 08:00-08:00":             "to: 08:00",
		"mon 08:00-09:00 Mars/Utopia": "timezone: Mars/Utopia",
		"mon 08:00-09:00 Local":       "timezone: Local",
		"mon 08:00-09:00 ../passwd":   "timezone: ../passwd",
		"mon":                         ": mon",
	} {
		_, err := times.Parse(text)
		mistake, ok := errors.AsType[*invalid.Error](err)
		if field, value, _ := strings.Cut(want, ": "); !ok || mistake.Field != field || mistake.Value != value || mistake.Remedy == "" {
			t.Errorf("%s: %v, want an error about %s", text, err, want)
		}
	}
}

func anyPeriod(t *rapid.T) times.Period {
	from := rapid.IntRange(0, 95).Draw(t, "from")
	to := (from + rapid.IntRange(1, 95).Draw(t, "for")) % 96
	zone := rapid.SampledFrom([]string{"Europe/Berlin", "Australia/Sydney", "UTC", "America/New_York"}).Draw(t, "zone")
	days := rapid.SampledFrom([]string{"daily", "mon-fri", "sat,sun", "wed"}).Draw(t, "days")
	clock := func(q int) string { return fmt.Sprintf("%02d:%02d", q/4, q%4*15) }
	p, err := times.New(days, clock(from), clock(to), zone)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// set returns which of the periods run.
func set(periods []times.Period, at time.Time) (text string) {
	for _, p := range periods {
		text += fmt.Sprint(p.Covers(at))
	}
	return text
}

// Every set that runs at some quarter of an hour of the year is that of one of Moments, once;
// and nothing changes before Next.
func TestMomentsAreAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		periods := rapid.SliceOfNDistinct(rapid.Custom(anyPeriod), 1, 4, func(p times.Period) times.Period { return p }).Draw(t, "periods")
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 365*24*60).Draw(t, "minute")) * time.Minute)
		found := map[string]bool{}
		for _, at := range times.Moments(periods, now) {
			if s := set(periods, at); found[s] {
				t.Fatalf("%v twice", s)
			} else {
				found[s] = true
			}
		}
		if !found[set(periods, now)] {
			t.Fatal("not now's")
		}
		for range 200 {
			at := now.Add(time.Duration(rapid.IntRange(0, 365*24*4).Draw(t, "quarter")) * 15 * time.Minute)
			if !found[set(periods, at)] {
				t.Fatalf("%v: %v run, which is none of the moments", at, set(periods, at))
			}
		}
		next := times.Next(periods, now)
		if !next.After(now) || set(periods, next) == set(periods, now) && len(periods) == 1 {
			t.Fatalf("next is %v", next)
		}
		if before := next.Add(-time.Minute); before.After(now) && set(periods, before) != set(periods, now) {
			t.Fatalf("something changes before %v", next)
		}
	})
}
