// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"egress 500GB per month then max 5mbit":                                                          "",
		"total 1500 MB per 12h then block":                                                               "total 1500MB per 12h then block",
		"ingress 10GiB egress 1 per week from SUN timezone UTC then tell":                                "egress 1B ingress 10GiB per week from sun timezone UTC then tell",
		"total 1TB per day from 06:00 then tell":                                                         "",
		"{egress: 500GB, total: 1TB, per: month, from: 15, timezone: Europe/Berlin, then: {max: 5mbit}}": "egress 500GB total 1TB per month from 15 timezone Europe/Berlin then max 5mbit",
		"{egress: 500GB, per: month, then: block}":                                                       "egress 500GB per month then block",
		"egress 0 per month then block":                                                                  `egress "0": a quota of 0; write a size such as 500GB, or none to have no quota`,
		"egress 500gbit per month then block":                                                            `egress "500gbit": a rate, or bits; write bytes with a unit: 500MB, 1.5TB, 10GiB`,
		"egress x per month then block":                                                                  `egress "x": no amount of data; write bytes with a unit: 500MB, 1.5TB, 10GiB`,
		"egress 1e5 per month then block":                                                                `egress "1e5": no amount of data; write bytes with a unit: 500MB, 1.5TB, 10GiB`,
		"egress 5000PB per month then block":                                                             `egress "5000PB": too much; write 1000PB or less`,
		"per month then block":                                                                           `egress "": no size; write at least one of egress, ingress, total: egress 500GB`,
		"egress 1GB then block":                                                                          `per "": is missing; write month, week, day, or hours such as 12h`,
		"egress 1GB per year then block":                                                                 `per "year": not known; write month, week, day, or hours that divide a day: 1h, 2h, 3h, 4h, 6h, 8h, 12h`,
		"egress 1GB per 5h then block":                                                                   `per "5h": not known; write month, week, day, or hours that divide a day: 1h, 2h, 3h, 4h, 6h, 8h, 12h`,
		"egress 1GB per month from 32 then block":                                                        `from "32": no day of a month; write 1 to 31; a month that is shorter begins on its last day`,
		"egress 1GB per week from 3 then block":                                                          `from "3": no day of a week; write one of mon, tue, wed, thu, fri, sat, sun`,
		"egress 1GB per day from 6 then block":                                                           `from "6": is no time of the day; write hours and minutes, 00:00 to 24:00`,
		"egress 1GB per 6h from 1 then block":                                                            `from "1": hours begin at midnight; leave it out, or write per day`,
		"egress 1GB per month timezone Mars/Base then block":                                             `timezone "Mars/Base": no such time zone; write a name such as Europe/Berlin or UTC, or leave it out for the host's own`,
		"egress 1GB per month":                                                                           `then "": is missing; write what becomes of a workload that reaches it: then max 5mbit, then block, or then tell`,
		"egress 1GB per month then stop":                                                                 `then "stop": not known; write max and a rate, block, or tell`,
		"egress 1GB per month then max":                                                                  `then "max": not known; write max and a rate, block, or tell`,
		"egress 1GB egress 2GB per month then tell":                                                      `egress "2GB": is there twice; write it once`,
		"egress per month then tell":                                                                     `egress "": no value; write one behind it`,
		"500GB":                                                                                          `"500GB": is no part of a quota; write sizes, a time and what then: egress 500GB per month then max 5mbit`,
		"{egres: 1GB}":                                                                                   `egres "": is no part of a quota; write egress, ingress, total, per, from, timezone, then`,
		"{egress: [1]}":                                                                                  `egress "": a list where a single value is expected; write sizes, a time and what then: egress 500GB per month then max 5mbit`,
	} {
		q, err := Parse(in)
		got := q.String()
		if err != nil {
			got = err.Error()
		}
		if want == "" {
			want = in
		}
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", in, got, want)
		}
		if err == nil {
			if again, err := Parse(got); err != nil || again != q {
				t.Errorf("%s is read as %v, %v", got, again, err)
			}
		}
	}
}

func TestPeriod(t *testing.T) {
	for _, tt := range []struct{ quota, now, start, end string }{
		{"per month", "2026-11-24T10:00:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"per month", "2026-11-01T00:00:00Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"per month", "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"per month from 15", "2026-11-14T23:59:59Z", "2026-10-15T00:00:00Z", "2026-11-15T00:00:00Z"},
		// Months of 28 and 29 days.
		{"per month from 31", "2026-02-27T12:00:00Z", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"},
		{"per month from 31", "2026-02-28T12:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"per month from 30", "2028-02-29T00:00:00Z", "2028-02-29T00:00:00Z", "2028-03-30T00:00:00Z"},
		{"per month", "2026-02-28T23:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		// A month with a change of the clocks, north and south; Nepal's odd minutes.
		{"per month timezone Europe/Berlin", "2026-03-15T00:00:00Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"},
		{"per month timezone Australia/Sydney", "2026-04-15T00:00:00Z", "2026-03-31T13:00:00Z", "2026-04-30T14:00:00Z"},
		{"per month timezone Asia/Kathmandu", "2026-04-15T00:00:00Z", "2026-03-31T18:15:00Z", "2026-04-30T18:15:00Z"},
		{"per week", "2026-11-24T10:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"per week from tue", "2026-11-24T00:00:00Z", "2026-11-24T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"per week from wed", "2026-11-24T23:59:59Z", "2026-11-18T00:00:00Z", "2026-11-25T00:00:00Z"},
		{"per week timezone America/New_York", "2026-03-08T12:00:00Z", "2026-03-02T05:00:00Z", "2026-03-09T04:00:00Z"}, // an hour less
		// The day of 23 hours, and the one of 25: in October clocks show 02:30 twice.
		{"per day timezone Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"per day timezone Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"per day from 02:30 timezone Europe/Berlin", "2026-10-25T01:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"per day from 02:30 timezone Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}, // skipped: when clocks go on
		{"per day timezone Australia/Lord_Howe", "2026-04-05T00:00:00Z", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"},      // half an hour
		{"per day timezone America/Santiago", "2026-09-06T12:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"},         // midnight is skipped
		{"per 12h", "2026-11-24T11:59:59Z", "2026-11-24T00:00:00Z", "2026-11-24T12:00:00Z"},
		{"per 12h", "2026-11-24T12:00:00Z", "2026-11-24T12:00:00Z", "2026-11-25T00:00:00Z"},
		{"per 1h timezone Europe/Berlin", "2026-10-25T01:30:00Z", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"}, // the hour that comes twice is one
		{"per 2h timezone Europe/Berlin", "2026-03-29T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
	} {
		q, err := Parse("total 1GB " + tt.quota + " then tell")
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, tt.now)
		if err != nil {
			t.Fatal(err)
		}
		start, end := q.Period(now)
		if got, want := start.UTC().Format(time.RFC3339)+" to "+end.UTC().Format(time.RFC3339), tt.start+" to "+tt.end; got != want {
			t.Errorf("%s at %s is from %s, want %s", tt.quota, tt.now, got, want)
		}
	}
}

// Periods follow each other without a gap, and every moment is in one, in every zone that is
// odd, for two years.
func TestPeriodsAreGapless(t *testing.T) {
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu", "Pacific/Apia"} {
		for _, per := range []string{"month", "month from 31", "month from 29", "week", "week from sun", "day", "day from 02:30", "12h", "8h", "1h"} {
			q, err := Parse("total 1GB per " + per + " timezone " + zone + " then tell")
			if err != nil {
				t.Fatal(err)
			}
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			_, last := q.Period(now)
			for until := now.AddDate(0, 3, 0); last.Before(until); {
				start, end := q.Period(last)
				if !start.Equal(last) || !end.After(start) {
					t.Fatalf("%v: after %v comes %v to %v", q, last, start, end)
				}
				if s, e := q.Period(end.Add(-time.Second)); !s.Equal(start) || !e.Equal(end) {
					t.Fatalf("%v: the last second before %v is in %v to %v", q, end, s, e)
				}
				last = end
			}
		}
	}
}

func TestReached(t *testing.T) {
	q := Quota{Egress: 100, Total: 150}
	for _, tt := range []struct {
		sent, received uint64
		want           Reach
		left, of       Size
		part           float64
	}{
		{0, 0, Reach{}, 100, 100, 0},
		{80, 0, Reach{}, 20, 100, 0.8},
		{80, 60, Reach{}, 10, 150, 140.0 / 150},
		{100, 0, Reach{Egress: true}, 50, 150, 1},
		{0, 150, Reach{Egress: true, Ingress: true}, 100, 100, 1},
		{200, 0, Reach{Egress: true, Ingress: true}, 0, 0, 2},
	} {
		left, of := q.Left(tt.sent, tt.received)
		if got := q.Reached(tt.sent, tt.received); got != tt.want || left != tt.left || of != tt.of || q.Part(tt.sent, tt.received) != tt.part {
			t.Errorf("%d and %d: %+v, %d of %d, %v", tt.sent, tt.received, got, left, of, q.Part(tt.sent, tt.received))
		}
	}
}
