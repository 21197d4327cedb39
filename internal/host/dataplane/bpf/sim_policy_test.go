// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/quota"
	"weir/internal/core/policy/twolevel"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide"
	"weir/internal/host/discover"
)

var long = flag.Bool("long", false, "draw 10,000 policies with and without groups, not 100, and 2,000 hosts with zones, times, quotas and groups, not 25; and try all faults of testdata/mutants.yaml")

// A drawn host: a weir.yaml with zones, times, quotas and groups, a moment, and who sends what
// into which zone. What must follow is written beside the text as it is drawn, by the
// documentation's words and without any of Weir's packages, but for twolevel.Divide (which has
// an exact oracle of its own).
type drawnHost struct {
	device    policy.Rate
	zones     []drawnZone // the last is the device's own link
	now       time.Time
	workloads []drawnSharer
	groups    []drawnSharer
	spent     map[string]bool // whose quota is used up, by the name in the file
	text      strings.Builder
}

// drawnZone is a link.
type drawnZone struct {
	name     string      // in the file, "" if it has none
	link     string      // by which Weir calls it
	capacity policy.Rate // of the device's own: that of the device
	standard bool        // it is the default zone
}

// drawnSharer is what a workload or group has at the moment.
type drawnSharer struct {
	name    string
	group   int // of a workload: index in groups, -1 = none
	zones   []policy.Sharer
	least   []policy.Rate // the min that holds at any time, in each zone
	traffic []traffic     // of a workload, in each zone; a length of 0 = none
}

const kbit = 1000

// drawHost draws a host. Mins fit at every moment and in every zone: admission is tested elsewhere
// (package agent/decide).
func drawHost(t *rapid.T) *drawnHost {
	h := &drawnHost{device: policy.Rate(rapid.SampledFrom([]uint64{100e6, 1e9}).Draw(t, "device")), spent: map[string]bool{}}
	zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney"}).Draw(t, "host's time zone")
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	h.now = time.Date(2026, 1, 1, 0, rapid.IntRange(0, 2*366*24*60).Draw(t, "minute of two years"), 0, 0, time.UTC).In(location)
	h.drawZones(t)
	room := make([]float64, len(h.zones)) // that mins may still take
	left := float64(h.device)
	for i, z := range h.zones[:len(h.zones)-1] {
		room[i] = float64(z.capacity)
		left -= room[i]
	}
	room[len(room)-1] = left
	n := rapid.IntRange(0, 2).Draw(t, "groups")
	inside := make([][]float64, n) // what the mins of members may take, by zone
	if n > 0 {
		fmt.Fprintln(&h.text, "groups:")
	}
	for i := range n {
		g := h.drawSharer(t, fmt.Sprint("g", i+1), room, nil)
		for _, least := range g.least {
			inside[i] = append(inside[i], float64(least))
		}
		h.groups = append(h.groups, g)
	}
	fmt.Fprintln(&h.text, "workloads:\n  host: {weight: 1}")
	for i := range rapid.IntRange(2, 6).Draw(t, "workloads") {
		group := rapid.IntRange(-1, n-1).Draw(t, "group")
		within := room
		if group >= 0 {
			within = inside[group]
		}
		w := h.drawSharer(t, fmt.Sprint("c", i+1), within, &group)
		for _, z := range h.zones {
			w.traffic = append(w.traffic, drawTraffic(t, z.capacity))
		}
		h.workloads = append(h.workloads, w)
	}
	return h
}

func (h *drawnHost) drawZones(t *rapid.T) {
	part := func(of float64, name string) policy.Rate {
		return policy.Rate(of*rapid.Float64Range(0.1, 1).Draw(t, name)/kbit) * kbit
	}
	fmt.Fprintf(&h.text, "links:\n- device: up0\n  egress: %dkbit\n  zones:\n", h.device/kbit)
	own := drawnZone{link: "up0", capacity: h.device}
	switch rapid.IntRange(0, 2).Draw(t, "zones") {
	case 0: // the default zone is a line behind the device
		wan := part(0.9*float64(h.device), "wan")
		fmt.Fprintf(&h.text, "    wan: {egress: %dkbit}\n    lan: {prefixes: [private]}\n", wan/kbit)
		h.zones = append(h.zones, drawnZone{"wan", "up0 wan", wan, true})
		own.name = "lan"
	case 1:
		wan := part(0.6*float64(h.device), "wan")
		cdn := part(0.3*float64(h.device), "cdn")
		fmt.Fprintf(&h.text, "    wan: {egress: %dkbit}\n    cdn: {egress: %dkbit, prefixes: [192.0.2.0/24]}\n    lan: {prefixes: [private]}\n", wan/kbit, cdn/kbit)
		h.zones = append(h.zones, drawnZone{"wan", "up0 wan", wan, true}, drawnZone{"cdn", "up0 cdn", cdn, false})
		own.name = "lan"
	case 2: // a zone beside the default one, which is the device's own
		cdn := part(0.9*float64(h.device), "cdn")
		fmt.Fprintf(&h.text, "    cdn: {egress: %dkbit, prefixes: [192.0.2.0/24]}\n", cdn/kbit)
		h.zones = append(h.zones, drawnZone{"cdn", "up0 cdn", cdn, false})
		own.standard = true
	}
	h.zones = append(h.zones, own)
}

// drawSharer draws the policy of a workload (its group may be drawn, too) or a group, writes it and
// returns what holds of it now. Its mins take something of the room in each zone.
func (h *drawnHost) drawSharer(t *rapid.T, name string, room []float64, group *int) drawnSharer {
	c := drawnSharer{name: name, group: -1, zones: make([]policy.Sharer, len(h.zones))}
	fmt.Fprintf(&h.text, "  %s:\n", name)
	say := func(format string, args ...any) { fmt.Fprintf(&h.text, "    "+format+"\n", args...) }
	if group != nil && *group >= 0 {
		c.group = *group
		say("group: %s", h.groups[*group].name)
	}
	weight := func() uint32 { return uint32(rapid.IntRange(1, 10).Draw(t, "weight")) }
	// A min that fits into a room, and a max that is not below a min.
	min := func(room float64) policy.Rate {
		if rapid.Bool().Draw(t, "min?") {
			return policy.Rate(room*rapid.Float64Range(0.05, 0.6).Draw(t, "min")/kbit) * kbit
		}
		return 0
	}
	max := func(most, least policy.Rate) policy.Rate {
		if rapid.IntRange(0, 2).Draw(t, "max?") == 0 {
			low := math.Max(float64(least), 0.05*float64(most))
			return policy.Rate((low+(float64(most)-low)*rapid.Float64Range(0, 1).Draw(t, "max"))/kbit)*kbit + kbit
		}
		return 0
	}
	standard := slices.IndexFunc(h.zones, func(z drawnZone) bool { return z.standard })
	base := policy.Sharer{Weight: weight(), Demand: policy.Unlimited}
	base.Min = min(room[standard])
	base.Max = max(h.zones[standard].capacity, base.Min)
	say("weight: %d", base.Weight)
	say("min: %s", kbits(base.Min))
	say("max: %s", kbits(base.Max))
	now, taken := base, base.Min
	if rapid.IntRange(0, 2).Draw(t, "when?") == 0 {
		say("when:")
		for _, p := range drawPeriods(t) {
			then := base
			says := ""
			if rapid.Bool().Draw(t, "another max?") {
				then.Max = max(h.zones[standard].capacity, base.Min)
				says += ", max: " + kbits(then.Max)
			}
			if more := min(room[standard] - float64(base.Min)); more > 0 && (then.Max == 0 || base.Min+more <= then.Max) {
				then.Min = base.Min + more
				says += ", min: " + kbits(then.Min)
			}
			if says == "" || rapid.Bool().Draw(t, "another weight?") {
				then.Weight = weight()
				says += fmt.Sprint(", weight: ", then.Weight)
			}
			taken = policy.Rate(math.Max(float64(taken), float64(then.Min)))
			say("- {%s%s}", p.text, says)
			if p.holds(h.now) {
				now = then
			}
		}
	}
	for i, z := range h.zones {
		if z.standard {
			c.zones[i] = now
			c.least = append(c.least, base.Min)
			room[i] -= float64(taken)
			continue
		}
		c.zones[i] = policy.Sharer{Weight: now.Weight, Demand: policy.Unlimited}
		c.least = append(c.least, 0)
	}
	var others []string
	for i, z := range h.zones {
		if z.standard || z.name == "" || rapid.Bool().Draw(t, "as everywhere?") {
			continue
		}
		in := &c.zones[i]
		in.Weight = weight()
		in.Min = min(room[i])
		in.Max = max(z.capacity, in.Min)
		c.least[i] = in.Min
		room[i] -= float64(in.Min)
		others = append(others, fmt.Sprintf("%s: {weight: %d, min: %s, max: %s}", z.name, in.Weight, kbits(in.Min), kbits(in.Max)))
	}
	if others != nil {
		say("zones: {%s}", strings.Join(others, ", "))
	}
	if rapid.IntRange(0, 3).Draw(t, "quota?") == 0 {
		most := policy.Rate(float64(h.device)*rapid.Float64Range(0.02, 0.5).Draw(t, "quota's max")/kbit) * kbit
		say("quota: {egress: 10GB, per: month, timezone: UTC, then: {max: %dkbit}}", most/kbit)
		if h.spent[name] = rapid.Bool().Draw(t, "spent?"); h.spent[name] {
			for i := range c.zones {
				if z := &c.zones[i]; z.Max == 0 || z.Max > most {
					z.Max = most
				}
			}
		}
	}
	return c
}

func kbits(r policy.Rate) string {
	if r == 0 {
		return "none"
	}
	return strconv.FormatUint(uint64(r/kbit), 10) + "kbit"
}

// drawnPeriod is an entry of `when`.
type drawnPeriod struct {
	text  string
	holds func(time.Time) bool
}

// drawPeriods draws one or two periods that do not overlap: of one time zone, on the same days,
// one in the morning and one around midnight.
func drawPeriods(t *rapid.T) []drawnPeriod {
	names := []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}
	var days []string
	on := map[time.Weekday]bool{}
	for i, name := range names {
		if rapid.Bool().Draw(t, name) {
			days = append(days, name)
			on[time.Weekday((i+1)%7)] = true
		}
	}
	if days == nil {
		days, on = names[:1], map[time.Weekday]bool{time.Monday: true}
	}
	// Without daylight saving: that of times is tested in package policy/times.
	zone := rapid.SampledFrom([]string{"UTC", "Asia/Tokyo", "America/Phoenix"}).Draw(t, "time zone")
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	period := func(from, to int) drawnPeriod {
		text := fmt.Sprintf("days: %q, from: \"%02d:%02d\", to: \"%02d:%02d\", timezone: %s", strings.Join(days, ","), from/60, from%60, to/60, to%60, zone)
		return drawnPeriod{text, func(now time.Time) bool {
			local := now.In(location)
			minute := local.Hour()*60 + local.Minute()
			if from < to {
				return on[local.Weekday()] && from <= minute && minute < to
			}
			return on[local.Weekday()] && from <= minute || on[(local.Weekday()+6)%7] && minute < to
		}}
	}
	night := period(rapid.IntRange(18*60, 23*60).Draw(t, "evening"), rapid.IntRange(0, 6*60).Draw(t, "morning"))
	if rapid.Bool().Draw(t, "one period?") {
		return []drawnPeriod{night}
	}
	return []drawnPeriod{night, period(rapid.IntRange(6*60, 11*60).Draw(t, "from"), rapid.IntRange(12*60, 18*60).Draw(t, "to"))}
}

// drawTraffic draws what a workload sends into a zone.
func drawTraffic(t *rapid.T, capacity policy.Rate) traffic {
	kind := rapid.IntRange(0, 5).Draw(t, "traffic")
	if kind == 0 {
		return traffic{}
	}
	src := traffic{length: rapid.SampledFrom([]int{200, 1000, frames}).Draw(t, "length")}
	if kind == 1 {
		src.interval = time.Duration(float64(src.length*8) / (float64(capacity) * rapid.Float64Range(0.001, 1.5).Draw(t, "demand")) * 1e9)
		return src
	}
	src.window = 2 + int(float64(capacity)*1e-3/8/float64(src.length))
	src.delay = time.Duration(rapid.IntRange(10, 300).Draw(t, "delay")) * time.Microsecond
	return src
}

func (s traffic) demand() policy.Rate {
	switch {
	case s.length == 0:
		return 0
	case s.interval > 0:
		return policy.Rate(float64(s.length*8) / s.interval.Seconds())
	}
	return policy.Unlimited
}

// ideals returns what each workload gets in a zone, in bits per second. more are branches beside
// them: what other zones send by the device.
func (h *drawnHost) ideals(zone int, more ...policy.Sharer) []float64 {
	type place struct{ branch, member int }
	var branches []twolevel.Branch
	places := make([]place, len(h.workloads))
	branch := map[int]int{} // of a group
	for i, w := range h.workloads {
		sharer := w.zones[zone]
		sharer.Demand = w.traffic[zone].demand()
		if sharer.Max > 0 && sharer.Min > sharer.Max {
			sharer.Min = sharer.Max // its quota is used up
		}
		if w.group < 0 {
			places[i] = place{len(branches), -1}
			branches = append(branches, twolevel.Branch{Sharer: sharer})
			continue
		}
		at, known := branch[w.group]
		if !known {
			at = len(branches)
			branch[w.group] = at
			branches = append(branches, twolevel.Branch{Sharer: h.groups[w.group].zones[zone]})
		}
		places[i] = place{at, len(branches[at].Members)}
		branches[at].Members = append(branches[at].Members, sharer)
	}
	for _, at := range branch {
		b := &branches[at]
		var mins policy.Rate
		for _, m := range b.Members {
			mins += m.Min
		}
		b.Min = policy.Rate(math.Max(float64(b.Min), float64(mins)))
		if b.Max > 0 && b.Min > b.Max { // its quota is used up
			b.Min = b.Max
			for i := range b.Members {
				if m := &b.Members[i]; mins > b.Max {
					m.Min = policy.Rate(float64(m.Min) * float64(b.Max) / float64(mins))
				}
			}
		}
	}
	for _, sharer := range more {
		branches = append(branches, twolevel.Branch{Sharer: sharer})
	}
	division := twolevel.Divide(h.zones[zone].capacity, branches)
	rates := make([]float64, len(h.workloads))
	for i, p := range places {
		if p.member < 0 {
			rates[i] = division.Shares[p.branch].Bps
		} else {
			rates[i] = division.Groups[p.branch].Shares[p.member].Bps
		}
	}
	return rates
}

// decided returns what Weir makes of the host.
func (h *drawnHost) decided(t *rapid.T) decide.Decision {
	c, err := config.Parse("weir.yaml", []byte(h.text.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, &h.text)
	}
	w := decide.World{Config: c, Now: h.now, Number: map[string]plan.ClassID{}, Quotas: map[string]quota.Standing{}}
	for _, sharer := range h.workloads {
		w.Found = append(w.Found, discover.Workload{Key: sharer.name, Name: sharer.name})
	}
	for key, v := range decide.Decide(w).ByKey() {
		if v.Policy.Quota == nil {
			continue
		}
		standing := quota.Standing{Quota: *v.Policy.Quota, Sent: 9e9}
		if h.spent[v.Name] {
			standing.Sent = 11e9
		}
		w.Quotas[key] = standing
	}
	d := decide.Decide(w)
	for _, v := range d.ByKey() {
		if v.Note != "" && v.State == workload.StateRefused {
			t.Fatalf("%s: %s\n%s", v.Name, v.Note, &h.text)
		}
	}
	return d
}

// drawing has rapid.Check make so many draws, `all` of them with -long, unless the command line
// says how many. What it returns takes that back.
func drawing(some, all string) func() {
	draws := flag.Lookup("rapid.checks")
	if draws.Value.String() != draws.DefValue {
		return func() {}
	}
	draws.Value.Set(map[bool]string{false: some, true: all}[*long])
	return func() { draws.Value.Set(draws.DefValue) }
}

// TestHostsHoldTheContract draws whole hosts: zones, times, quotas and groups in a weir.yaml, and
// a moment. What a zone's qdisc sends comes to the device's, as in the kernel.
func TestHostsHoldTheContract(t *testing.T) {
	defer drawing("25", "2000")()
	rapid.Check(t, func(t *rapid.T) {
		h := drawHost(t)
		d := h.decided(t)
		over := time.Second
		for _, z := range h.zones {
			over = max(over, time.Duration(float64(1000*frames*8*len(h.workloads))/float64(z.capacity)*1e9))
		}
		var behind []string // what zones send by the device
		var through []policy.Sharer
		for i, z := range h.zones {
			state, planned := d.Plans[z.link]
			if !planned {
				t.Fatalf("no link %q: %v\n%s", z.link, d.Plans, &h.text)
			}
			own := i == len(h.zones)-1
			s := simulate(state.Link, state.Classes...)
			for j, w := range h.workloads {
				if src := w.traffic[i]; src.length > 0 {
					src.id = d.World.Number[w.name]
					src.flow = j
					s.send(src)
				}
			}
			if own {
				fmt.Fprint(s, strings.Join(behind, ""))
			} else {
				s.trace(1)
			}
			s.settle()
			s.run(over)
			phases := s.result(t)
			got := phases[1]
			within := 0.015 * float64(z.capacity)
			var beside []policy.Sharer
			if own {
				beside = through
			}
			ideals := h.ideals(i, beside...)
			if !own {
				at, _ := d.Plans["up0"].Class(d.World.Number[plan.ZoneKey(z.link)])
				sum := 0.0
				for _, ideal := range ideals {
					sum += ideal
				}
				through = append(through, policy.Sharer{Weight: at.Weight, Min: z.capacity, Demand: policy.Rate(sum)})
				behind = append(behind, replayed(at.ID, phases[:2])...)
			}
			for j, w := range h.workloads {
				rate := got.rate(d.World.Number[w.name], over)
				sharer := w.zones[i]
				if math.Abs(rate-ideals[j]) > within {
					t.Fatalf("%s in %q: %.3f Mbit/s, ideal %.3f of %v, at %v\n%s\n%v", w.name, z.link, rate/1e6, ideals[j]/1e6, z.capacity, h.now, &h.text, state)
				}
				// A turn is a batch long, and one may have been just before and the
				// next just after.
				turn := float64(z.capacity) * time.Duration(linkConfig(state.Link, 1).BulkBatchNs).Seconds() / over.Seconds()
				if least := math.Min(float64(sharer.Min), ideals[j]); rate < 0.98*least-turn {
					t.Fatalf("%s in %q: %.3f Mbit/s is below its min, %.3f\n%s", w.name, z.link, rate/1e6, least/1e6, &h.text)
				}
			}
			if !own {
				continue
			}
			for j, z := range h.zones[:i] {
				rate := got.rate(d.World.Number[plan.ZoneKey(z.link)], over)
				if math.Abs(rate-float64(through[j].Demand)) > 0.015*float64(z.capacity) {
					t.Fatalf("zone %s sends %.3f Mbit/s by the device, ideal %.3f\n%s", z.name, rate/1e6, float64(through[j].Demand)/1e6, &h.text)
				}
			}
			if got.total*8 > float64(h.device)*(over.Seconds()+0.002)+2*frames*8 {
				t.Fatalf("the device carried %.3f of %v\n%s", got.total*8/over.Seconds()/1e6, h.device, &h.text)
			}
		}
	})
}

// replayed returns the simulator's commands for what left in phases and comes to class id of
// another qdisc at once.
func replayed(id plan.ClassID, phases []phase) (commands []string) {
	for _, p := range phases {
		for _, left := range p.left {
			for _, packet := range left {
				commands = append(commands, fmt.Sprintln("packet", int(id)+packet.flow*plan.MaxClasses, packet.length, packet.at.Nanoseconds()))
			}
		}
	}
	return commands
}
