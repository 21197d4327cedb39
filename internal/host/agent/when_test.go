// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/core/refusal"
)

// The bubble's time begins on Saturday, 2000-01-01 00:00 UTC.

// What differs at times is in force within a second of its time, is told, and ends so.
func TestTimes(t *testing.T) {
	const config = `
links: [{device: eth0, egress: 100mbit}]
groups: {office: {weight: 2, when: [{days: sat, from: "00:10", to: "01:00", timezone: UTC, max: 30mbit}]}}
workloads:
  a: {weight: 3, when: [{days: sat, from: "00:10", to: "00:20", timezone: UTC, weight: 8, min: 20mbit}]}
`
	inBubble(t, config, func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		h.run("b", "weir.weight=2")
		before := h.state("eth0")
		if w := h.workload("a"); w.Policy.Weight != 3 || w.Until == nil || w.Until.UTC().Format(time.TimeOnly) != "00:10:00" {
			t.Errorf("before: weight %d until %v", w.Policy.Weight, w.Until)
		}
		time.Sleep(time.Until(time.Date(2000, 1, 1, 0, 9, 59, 0, time.UTC)))
		h.expect("a second before", "eth0", before)
		seconds(2)
		during := h.state("eth0")
		h.expect("during", "eth0", strings.NewReplacer("a weight 3", "a weight 8 min 20 Mbit/s", "office weight 2", "office weight 2 max 30 Mbit/s").Replace(before))
		if w := h.workload("a"); w.Policy.Weight != 8 || w.Origin["weight"] != "when" || w.Origin["max"] != "default" {
			t.Errorf("during: %+v, %v", w.Policy, w.Origin)
		}
		if !strings.Contains(h.log.String(), "the time has come") {
			t.Error("the log does not say why it changed")
		}
		h.stop()
		h.start()
		h.expect("after a restart", "eth0", during)
		seconds(10 * 60)
		h.expect("after the workload's time", "eth0", strings.Replace(before, "office weight 2", "office weight 2 max 30 Mbit/s", 1))
		seconds(40 * 60)
		h.expect("after all", "eth0", before)
	})
}

// What is in force follows the host's clock within a second, when it is set, forth and back, and
// when the host gets another time zone.
func TestTimesWhenTheClockIsSet(t *testing.T) {
	const config = `
links: [{device: eth0, egress: 100mbit}]
workloads:
  a: {when: [{days: daily, from: "08:00", to: "18:00", weight: 8}], quota: {egress: 1GB, per: day, then: tell}}
`
	inBubble(t, config, func(t *testing.T, h *host) {
		set, zone := time.Duration(0), time.UTC
		h.wall = func(now time.Time) time.Time { return now.Round(0).Add(set).In(zone) }
		h.start()
		h.run("a")
		expect := func(what string, weight uint32, midnight string) {
			t.Helper()
			seconds(2)
			w := h.workload("a")
			if w.Policy.Weight != weight {
				t.Errorf("%s: weight %d, want %d", what, w.Policy.Weight, weight)
			}
			if got := w.Quota.Since.Format(time.DateTime); got != midnight {
				t.Errorf("%s: its quota is since %s, want %s", what, got, midnight)
			}
		}
		expect("at midnight", 1, "2000-01-01 00:00:00")
		set = 10 * time.Hour
		expect("set to 10:00", 8, "2000-01-01 00:00:00")
		set = 7 * time.Hour
		expect("set back to 07:00", 1, "2000-01-01 00:00:00")
		zone = time.FixedZone("east", 5*3600)
		expect("12:00 in the east", 8, "1999-12-31 19:00:00")
		set = -6 * time.Hour
		expect("set back to yesterday, 23:00 in the east", 1, "1999-12-30 19:00:00")
		zone = time.FixedZone("west", -8*3600)
		expect("10:00 in the west", 8, "1999-12-31 08:00:00")
	})
}

// Where a period ends and the next one says the same, nothing ends.
func TestTimesThatAdjoin(t *testing.T) {
	const config = `
links: [{device: eth0, egress: 100mbit}]
workloads:
  always: {when: [{days: daily, from: "00:00", to: "24:00", timezone: UTC, max: 1mbit}]}
  halves: {when: [{days: daily, from: "00:00", to: "12:00", timezone: UTC, max: 1mbit}, {days: sat, from: "12:00", to: "18:00", timezone: UTC, max: 1mbit}]}
  same: {weight: 2, when: [{days: sun, from: "00:00", to: "12:00", timezone: UTC, weight: 2}]}
`
	inBubble(t, config, func(t *testing.T, h *host) {
		h.start()
		for _, name := range []string{"always", "halves", "same"} {
			h.run(name)
		}
		if w := h.workload("always"); w.Until != nil || w.Policy.Max.Compact() != "1mbit" || w.Origin["max"] != "when" {
			t.Errorf("always: until %v, %+v", w.Until, w.Policy)
		}
		if w := h.workload("halves"); w.Until == nil || w.Until.UTC().Format(time.DateTime) != "2000-01-01 18:00:00" {
			t.Errorf("halves: until %v", w.Until)
		}
		if w := h.workload("same"); w.Until != nil {
			t.Errorf("same: until %v", w.Until)
		}
		for name, want := range map[string]string{"always": "What it says of this time (max) is in force, and goes on.",
			"halves": "What it says of this time (max) is in force until Sat 2000-01-01 18:00 UTC."} {
			e, err := h.Explain(t.Context(), name)
			if err != nil || len(e.Links) != 1 || !slices.Contains(e.Links[0].Text, want) {
				t.Errorf("%s: %+v, %v; want %q", name, e.Links, err, want)
			}
		}
		seconds(18*60*60 + 1)
		if w := h.workload("halves"); !w.Policy.Max.None() || w.Until == nil || w.Until.UTC().Format(time.DateTime) != "2000-01-02 00:00:00" {
			t.Errorf("halves, in the evening: until %v, %+v", w.Until, w.Policy)
		}
	})
}

// ask sets fields of a workload.
func ask(t *testing.T, h *host, name string, fieldsAndTexts ...string) {
	t.Helper()
	if _, err := h.Set(t.Context(), name, apitest.Change(fieldsAndTexts...), false); err != nil {
		t.Fatal(err)
	}
}

// A min has room at every moment at which it is asked, or it is refused now.
func TestAdmissionAtEveryMoment(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit}]", func(t *testing.T, h *host) {
		h.start()
		h.run("day")
		h.run("night")
		h.run("other")
		ask(t, h, "day", "when", "mon-fri 08:00-18:00 UTC min 80mbit")
		ask(t, h, "night", "when", "mon 18:00-08:00 UTC min 90mbit") // never at the same time
		_, err := h.Set(t.Context(), "other", change("min=30mbit"), false)
		refused(t, err, refusal.NoRoom, "asked 30 Mbit/s", "on Mon 2000-01-03 08:00 UTC", "free 20 Mbit/s")
		_, err = h.Set(t.Context(), "other", apitest.Change("when", "sun 00:00-24:00 UTC min 100mbit; tue 12:00-13:00 UTC min 30mbit"), false)
		refused(t, err, refusal.NoRoom, "when", "Tue 2000-01-04 12:00 UTC")
		ask(t, h, "other", "when", "sun 00:00-24:00 UTC min 100mbit")
		ask(t, h, "other", "when", "none", "min", "10mbit")
		_, err = h.Set(t.Context(), "night", apitest.Change("when", "mon 17:59-08:00 UTC min 90mbit"), false)
		refused(t, err, refusal.NoRoom, "when", "Mon 2000-01-03 17:59 UTC")

		// A label is told now, not on Monday, and takes nothing away then.
		h.run("late", "weir.min=5mbit")
		if w := h.workload("late"); w.State != "refused" || !strings.Contains(w.Note, "2000-01-03 18:00") {
			t.Errorf("late is %s: %s", w.State, w.Note)
		}
		time.Sleep(time.Until(time.Date(2000, 1, 3, 18, 0, 1, 0, time.UTC)))
		h.expect("on Monday night", "eth0", `
			0 host weight 1
			1 day weight 1: vethday
			2 night weight 1 min 90 Mbit/s: vethnight
			3 other weight 1 min 10 Mbit/s: vethother
			4 late weight 1: vethlate`)
	})
}

// A group may not take room away from its members at some time.
func TestGroupsTimes(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit}]\ngroups: {office: {max: 50mbit}}", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		h.set("a", "group=office min=40mbit")
		c := apitest.Change("when", "mon 08:00-18:00 UTC max 30mbit")
		_, err := h.SetGroup(t.Context(), "office", api.GroupChange{PolicyChange: c}, false)
		refused(t, err, refusal.Conflict, "a would have no room for its min", "Mon 2000-01-03 08:00 UTC")
		if w := h.workload("a"); w.State != "active" {
			t.Errorf("a is %s: %s", w.State, w.Note)
		}
	})
}

// What is in force at one time is not held against what another time says.
func TestTimesDoNotMeet(t *testing.T) {
	const config = `
links: [{device: eth0, egress: 100mbit}]
workloads:
  a: {min: 8mbit, when: [{from: "00:10", to: "01:00", timezone: UTC, max: 9mbit}, {from: "02:00", to: "03:00", timezone: UTC, min: 12mbit}]}
`
	inBubble(t, config, func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		before := h.state("eth0")
		for _, at := range []struct {
			hour, minute int
			has          string
		}{{0, 11, "a weight 1 min 8 Mbit/s max 9 Mbit/s"}, {1, 1, "a weight 1 min 8 Mbit/s"}, {2, 1, "a weight 1 min 12 Mbit/s"}} {
			time.Sleep(time.Until(time.Date(2000, 1, 1, at.hour, at.minute, 0, 0, time.UTC)))
			h.expect(fmt.Sprint(at.hour, ":", at.minute), "eth0", strings.Replace(before, "a weight 1 min 8 Mbit/s", at.has, 1))
			if w := h.workload("a"); w.State != "active" || w.Note != "" {
				t.Errorf("at %d:%02d it is %s: %s", at.hour, at.minute, w.State, w.Note)
			}
		}
	})
}

// A label whose times contradict the configuration does without them, and says why.
func TestTimesThatContradict(t *testing.T) {
	const config = `
links: [{device: eth0, egress: 100mbit}]
labels: {allow: [min, when]}
workloads: {a: {max: 10mbit}}
`
	inBubble(t, config, func(t *testing.T, h *host) {
		h.start()
		h.run("a", "weir.when=daily 02:00-03:00 UTC min 20mbit")
		if w := h.workload("a"); w.State != "refused" || !strings.Contains(w.Note, "when[0].min is not in force: 20 Mbit/s is above the max, 10 Mbit/s") || w.Until != nil {
			t.Errorf("it is %s: %s", w.State, w.Note)
		}
	})
}

// A min in percent that is above a max of some hours in bit/s is known only on the link: it is
// refused now, not when the time comes.
func TestTimesThatContradictOnTheLink(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit}]\nlabels: {allow: [min, max, when]}", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		ask(t, h, "a", "min", "20%")
		before := h.state("eth0")
		_, err := h.Set(t.Context(), "a", apitest.Change("when", "sat 02:00-03:00 UTC max 5mbit"), false)
		refused(t, err, refusal.Invalid, "20 Mbit/s", "is above the max, 5 Mbit/s", "on Sat 2000-01-01 02:00 UTC")
		h.expect("after a refusal", "eth0", before)
		ask(t, h, "a", "when", "sat 02:00-03:00 UTC max 25mbit")

		// A label is told now, and what contradicts is not held now either.
		h.run("b", "weir.min=30%", "weir.when=sat 04:00-05:00 UTC max 5mbit")
		if w := h.workload("b"); w.State != "refused" || !strings.Contains(w.Note, "on Sat 2000-01-01 04:00 UTC") {
			t.Errorf("b is %s: %s", w.State, w.Note)
		}
		h.run("c", "weir.min=30%", "weir.max=5mbit") // whatever the time
		if w := h.workload("c"); w.State != "refused" || !strings.Contains(w.Note, "above the max, 5 Mbit/s") || strings.Contains(w.Note, "2000-01") {
			t.Errorf("c is %s: %s", w.State, w.Note)
		}
		now := h.state("eth0")
		time.Sleep(time.Until(time.Date(2000, 1, 1, 4, 0, 1, 0, time.UTC)))
		h.expect("from four on", "eth0", strings.Replace(now, "b weight 1", "b weight 1 max 5 Mbit/s", 1))
	})
}
