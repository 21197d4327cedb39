// SPDX-License-Identifier: Apache-2.0

package event

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)

// day hands a book one sight for each second and notes the events as text.
type day struct {
	*Book
	bounds Bounds
	now    time.Time
	log    []string
}

func newDay() *day { return &day{Book: NewBook(State{}), bounds: DefaultBounds, now: t0} }

// pass lets seconds pass in which all is as in s.
func (d *day) pass(seconds int, s Sight) {
	for range seconds {
		d.now = d.now.Add(time.Second)
		s.At = d.now
		for _, e := range d.Take(s, d.bounds) {
			d.log = append(d.log, fmt.Sprintf("%s %d %s %s: %s", e.At.Sub(t0), e.ID, e.Kind, e.State, e.Text))
		}
	}
}

func (d *day) want(t *testing.T, lines ...string) {
	t.Helper()
	if !slices.Equal(d.log, lines) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(d.log, "\n"), strings.Join(lines, "\n"))
	}
}

func workload(o Object) Sight {
	o.Type, o.Name = Workload, "web"
	return Sight{Objects: []Object{o}}
}

func TestOnceAndItsEnd(t *testing.T) {
	d := newDay()
	refused := workload(Object{Refused: "min is not in force"})
	d.pass(60, refused)
	d.pass(5, workload(Object{})) // too short for an end
	d.pass(60, refused)
	d.pass(60, workload(Object{}))
	d.pass(10, refused)
	d.pass(20, Sight{})
	d.want(t, "1s 1 refused begin: web: min is not in force",
		"2m16s 2 refused end: web has all of its policy",
		"3m6s 3 refused begin: web: min is not in force",
		"3m26s 4 refused end: web is gone")
	if d.Begun["refused"] != 2 || len(d.Open) != 0 {
		t.Errorf("begun %v, open %v", d.Begun, d.Open)
	}
}

// TestWaits: a link that is away for a moment is not told.
func TestWaits(t *testing.T) {
	d := newDay()
	there := Sight{Links: []LinkSight{{Device: "eth0", Direction: "egress"}}}
	gone := Sight{Links: []LinkSight{{Device: "eth0", Direction: "egress", Error: "no such device", Gone: true}}}
	for range 10 {
		d.pass(1, gone)
		d.pass(3, there)
	}
	d.want(t)
	d.pass(4, gone)
	lost := there
	lost.Links = []LinkSight{{Device: "eth0", Direction: "egress", Error: "HTB says no"}}
	d.pass(10, lost)
	d.pass(10, there)
	d.want(t, "42s 1 link-gone begin: link eth0: not steered: no such device",
		"46s 2 backend-lost begin: link eth0: not steered: HTB says no",
		"50s 3 link-gone end: link eth0 is there and steered again",
		"1m0s 4 backend-lost end: link eth0 is steered as wanted again")
}

// TestRestart: what an agent has told, the next one does not tell again; it tells the end.
func TestRestart(t *testing.T) {
	d := newDay()
	refused := workload(Object{Refused: "min is not in force"})
	d.pass(5, refused)
	for range 3 {
		d.Book = NewBook(d.State)
		d.pass(5, refused)
	}
	d.Book = NewBook(d.State)
	d.pass(20, workload(Object{}))
	d.want(t, "1s 1 refused begin: web: min is not in force", "31s 2 refused end: web has all of its policy")
	if began := d.Recent[1].Began; !began.Equal(t0.Add(time.Second)) {
		t.Errorf("began at %v", began)
	}
}

func TestQuota(t *testing.T) {
	d := newDay()
	until := t0.Add(time.Hour)
	for used := 70; used <= 110; used++ {
		q := Quota{Part: float64(used) / 100, Reached: used >= 100, Until: until}
		if q.Reached {
			q.InForce = "a max of 5mbit"
		}
		d.pass(1, workload(Object{Quota: q}))
	}
	d.pass(5, workload(Object{Quota: Quota{Part: 0.01, Until: until.Add(time.Hour)}}))
	d.want(t, "11s 1 quota-near begin: web: 80 % of its quota are used; the period ends Wed 2026-11-25 10:00 UTC",
		"31s 2 quota-near end: web has used up its quota",
		"31s 3 quota-reached begin: web: its quota is used up, a max of 5mbit is in force until Wed 2026-11-25 10:00 UTC",
		"42s 4 quota-reached end: web has some of its quota left again")
}

// TestQuotaTakenAway: a quota that is removed while it is used up has ended, and is not counted
// anew.
func TestQuotaTakenAway(t *testing.T) {
	d := newDay()
	until := t0.Add(time.Hour)
	d.pass(1, workload(Object{Quota: Quota{Part: 1.2, Reached: true, Until: until}}))
	d.pass(1, workload(Object{}))
	d.pass(1, workload(Object{Quota: Quota{Part: 1.2, Reached: true, Until: until}}))
	d.pass(1, workload(Object{Quota: Quota{Part: 0.2, Until: until}})) // raised
	d.pass(1, workload(Object{Quota: Quota{Part: 1.2, Reached: true, Until: until}}))
	d.pass(1, Sight{})
	var ends []string
	for _, line := range d.log {
		if strings.Contains(line, " end: ") {
			ends = append(ends, line)
		}
	}
	d.log = ends
	d.want(t, "2s 2 quota-reached end: web has no quota any more",
		"4s 4 quota-reached end: web has some of its quota left again",
		"6s 6 quota-reached end: web is gone")
}

// dropping is a second in which web loses a part of 1,000 packets a second.
func dropping(part float64, reason string) Sight {
	return workload(Object{Losses: []Losses{{Link: "eth0", Direction: "egress", Offered: 1000, Dropped: map[string]float64{reason: 1000 * part}}}})
}

// TestDropsHaveTwoBounds: it begins above 10 % and ends below 5 %; in between it is as it was.
func TestDropsHaveTwoBounds(t *testing.T) {
	d := newDay()
	d.pass(120, dropping(0.09, "aqm"))
	d.want(t)
	d.pass(60, dropping(0.2, "aqm"))
	if len(d.log) != 1 {
		t.Fatalf("%q", d.log)
	}
	for range 20 { // around the bound for a begin: still the same condition
		d.pass(10, dropping(0.07, "aqm"))
		d.pass(10, dropping(0.15, "aqm"))
	}
	if len(d.log) != 1 {
		t.Fatalf("%q", d.log)
	}
	d.pass(90, dropping(0.02, "aqm"))
	if len(d.log) != 2 || !strings.Contains(d.log[1], "2 drops end: web drops few packets again") {
		t.Fatalf("%q", d.log)
	}
	d.pass(60, workload(Object{}))
	if len(d.losses) != 0 {
		t.Errorf("%d means are kept of what drops nothing", len(d.losses))
	}
}

// TestDropsByReason: each reason has its bound, 0 is none, and a few packets are none either.
func TestDropsByReason(t *testing.T) {
	for _, c := range []struct {
		bounds Bounds
		reason string
		part   float64
		told   bool
	}{
		{DefaultBounds, "aqm", 0.5, true},
		{Bounds{Any: 0.1, ByReason: map[string]float64{"aqm": 0.6}}, "aqm", 0.5, false},
		{Bounds{Any: 0.1, ByReason: map[string]float64{"aqm": 0}}, "aqm", 0.5, false},
		{Bounds{ByReason: map[string]float64{"aqm": 0.1}}, "aqm", 0.5, true},
		{Bounds{ByReason: map[string]float64{"aqm": 0.1}}, "class_packets", 0.5, false},
		{DefaultBounds, "reset", 1, false},
		{Bounds{Any: 0.001}, "aqm", 0.005, false}, // 5 a second
	} {
		d := newDay()
		d.bounds = c.bounds
		d.pass(60, dropping(c.part, c.reason))
		if told := len(d.log) > 0; told != c.told {
			t.Errorf("%+v: %q", c, d.log)
		}
	}
}

// TestShortBurstOfDropsIsNone: 5 s of losses are none.
func TestShortBurstOfDropsIsNone(t *testing.T) {
	d := newDay()
	d.pass(5, dropping(0.5, "class_packets"))
	d.pass(60, workload(Object{Losses: []Losses{{Link: "eth0", Direction: "egress", Offered: 1000}}}))
	d.want(t)
}

// TestPairs: whatever happens, begins and ends of a condition take turns, ids have no gaps,
// and what is open is what has begun and not ended; over restarts too.
func TestPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDay()
		open, last := map[key]bool{}, uint64(0)
		for range rapid.IntRange(1, 200).Draw(t, "seconds") {
			d.now = d.now.Add(time.Second)
			s := Sight{At: d.now}
			for _, name := range []string{"a", "b"} {
				o := Object{Type: Workload, Name: name}
				switch rapid.IntRange(0, 4).Draw(t, "state") {
				case 0:
					continue
				case 1:
					o.Refused = "no room"
				case 2:
					o.Quota = Quota{Part: rapid.Float64Range(0, 2).Draw(t, "part"), Until: t0}
					o.Quota.Reached = o.Quota.Part >= 1
				case 3:
					o.Losses = []Losses{{Link: "eth0", Offered: 100, Dropped: map[string]float64{"aqm": rapid.Float64Range(0, 100).Draw(t, "dropped")}}}
				}
				s.Objects = append(s.Objects, o)
			}
			if rapid.IntRange(0, 50).Draw(t, "restart") == 0 {
				d.Book = NewBook(d.State)
			}
			for _, e := range d.Take(s, d.bounds) {
				if last++; e.ID != last {
					t.Fatalf("id %d after %d", e.ID, last-1)
				}
				if begins := e.State == Begin; begins == open[e.key()] || e.Text == "" || begins && e.Remedy == "" {
					t.Fatalf("%+v while open is %v", e, open)
				}
				open[e.key()] = e.State == Begin
			}
			for _, e := range d.Open {
				if !open[e.key()] {
					t.Fatalf("%+v is open and was not told", e)
				}
			}
		}
	})
}

// TestRecentIsBounded: a book remembers the newest.
func TestRecentIsBounded(t *testing.T) {
	d := newDay()
	for i := range Kept {
		d.now = d.now.Add(time.Minute)
		d.pass(1, Sight{Objects: []Object{{Type: Workload, Name: fmt.Sprint(i), Refused: "no room"}}})
		d.pass(20, Sight{})
	}
	if len(d.Recent) != Kept || d.Recent[Kept-1].ID != d.Last || d.Last != 2*Kept {
		t.Errorf("%d events, the last of %d", len(d.Recent), d.Last)
	}
	if since := d.Since(d.Last - 3); len(since) != 3 || since[0].ID != d.Last-2 {
		t.Errorf("%+v", since)
	}
	if len(d.since)+len(d.quiet) != 0 {
		t.Errorf("%d and %d leftovers", len(d.since), len(d.quiet))
	}
}
