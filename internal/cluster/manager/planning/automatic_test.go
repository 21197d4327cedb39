// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/optimize"
	"weir/internal/core/refusal"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestWindows(t *testing.T) {
	for _, c := range []struct {
		window, at string
		holds      bool
	}{
		{"08:00-18:00", "07:59", false}, {"08:00-18:00", "08:00", true}, {"08:00-18:00", "17:59", true}, {"08:00-18:00", "18:00", false},
		{"22:00-06:00", "21:59", false}, {"22:00-06:00", "23:00", true}, {"22:00-06:00", "05:59", true}, {"22:00-06:00", "06:00", false},
		{"00:00-00:00", "13:00", true}, {" 9:30 - 10:00 ", "09:45", true},
	} {
		w, err := ParseWindow(c.window)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := time.Parse("15:04", c.at)
		if w.holds(at) != c.holds {
			t.Errorf("%s at %s: %v", c.window, c.at, !c.holds)
		}
		if again, err := ParseWindow(w.String()); err != nil || again != w {
			t.Errorf("%s reads back as %s, %v", w, again, err)
		}
	}
	for _, bad := range []string{"", "8", "8-18", "08:00-24:30", "08:00-", "25:00-26:00", "night"} {
		if _, err := ParseWindow(bad); err == nil || !strings.Contains(err.Error(), "22:00-06:00") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestFree(t *testing.T) {
	a := DefaultAutomatic()
	a.AtOnce, a.PerHour = 3, 5
	begun := func(ago ...time.Duration) (list []time.Time) {
		for _, d := range ago {
			list = append(list, noon.Add(-d))
		}
		return list
	}
	quiet := a
	quiet.Quiet = []Window{{11 * time.Hour, 13 * time.Hour}}
	for name, c := range map[string]struct {
		a       Automatic
		running int
		begun   []time.Time
		want    int
		why     string
	}{
		"nothing under way": {a, 0, nil, 3, ""},
		"some under way":    {a, 2, nil, 1, ""},
		"all under way":     {a, 3, nil, 0, "3 moves are under way, 3 at once are allowed"},
		"four lately":       {a, 0, begun(time.Minute, time.Minute, 59*time.Minute, 59*time.Minute), 1, ""},
		"five lately":       {a, 0, begun(1, 2, 3, 4, 5), 0, "5 moves within the last hour, 5 are allowed"},
		"long ago":          {a, 0, begun(time.Hour, time.Hour, time.Hour, time.Hour, time.Hour), 3, ""},
		"quiet":             {quiet, 0, nil, 0, "quiet hours 11:00-13:00"},
	} {
		if n, why := c.a.Free(noon, c.running, c.begun); n != c.want || why != c.why {
			t.Errorf("%s: %d, %q; want %d, %q", name, n, why, c.want, c.why)
		}
	}
}

func TestChoose(t *testing.T) {
	a := DefaultAutomatic() // S has to fall by 20 %
	plan := func(before, after float64, moves int) optimize.Plan {
		return optimize.Plan{Before: optimize.Fitness{S: before}, After: optimize.Fitness{S: after}, Moves: make([]optimize.Relocation, moves)}
	}
	for name, c := range map[string]struct {
		plan optimize.Plan
		free int
		want int
		why  string
	}{
		"worth it":      {plan(1, 0.5, 2), 5, 2, "2 of 2 moves that lower S from 1 to 0.5"},
		"part of it":    {plan(1, 0.5, 9), 2, 2, "2 of 9 moves"},
		"not worth it":  {plan(1, 0.81, 3), 5, 0, "by less than 20 %"},
		"just worth it": {plan(1, 0.8, 3), 5, 3, "3 of 3"},
		"nothing":       {plan(1, 1, 0), 5, 0, "nothing is worth a move"},
	} {
		take, why := a.Choose(c.plan, false, c.free)
		if len(take) != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%s: %d moves, %q", name, len(take), why)
		}
	}
	if take, why := a.Choose(optimize.Plan{}, true, 1); take != nil || why != "no node uses more than 70 % of its CPU, memory or network" {
		t.Errorf("%v, %q", take, why)
	}
}

// TestSettings: what a request leaves out is as for the automatic mode.
func TestSettings(t *testing.T) {
	a := DefaultAutomatic()
	for _, c := range []struct {
		req   Request
		above float64
		wrong string
	}{
		{Request{}, 0.7, ""}, {Request{Above: new(0.0)}, 0, ""}, {Request{Above: new(1.0)}, 1, ""},
		{Request{Above: new(70.0)}, 0, "above"}, {Request{Above: new(math.NaN())}, 0, "above"}, {Request{Alpha: new(-1.0)}, 0, "alpha"},
		{Request{Measure: "median"}, 0, "measure"}, {Request{Algorithm: "luck"}, 0, "algorithm"},
	} {
		s, err := a.Settings(c.req)
		if c.wrong == "" && (err != nil || s.Above != c.above || s.Alpha != a.Alpha || s.Algorithm != Local) {
			t.Errorf("%+v: %+v, %v", c.req, s, err)
		}
		if e := (*refusal.Error)(nil); c.wrong != "" && (!errors.As(err, &e) || e.Field != c.wrong) {
			t.Errorf("%+v: %v, want the field %s", c.req, err, c.wrong)
		}
	}
}
