// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/core/invalid"
	"weir/internal/core/policy"
)

func TestBuildInWords(t *testing.T) {
	golden(t, "build", "out", func(t *testing.T, in map[string]string) string {
		var link Link
		var workloads []Workload
		var keys []string
		for _, l := range lines(t, in["in"]) {
			if l.words[0] == "link" {
				link = l.link()
				continue
			}
			workloads = append(workloads, l.workload())
			keys = append(keys, l.workload().Key)
		}
		prev := map[string]ClassID{}
		for _, l := range lines(t, in["prev"]) {
			prev[l.words[1]] = ClassID(l.number(l.words[2]))
		}
		numbers := Number(prev, keys)
		state, refusals, err := Build(link, workloads, numbers)
		var b strings.Builder
		b.WriteString(formatNumbers(numbers))
		b.WriteString(formatState(state))
		for _, r := range refusals {
			fmt.Fprintf(&b, "refused %s: %v\n", r.Key, r.Err)
		}
		if err != nil {
			fmt.Fprintf(&b, "error: %v\n", err)
		}
		return b.String()
	})
}

func TestBuildRefusesAWrongLink(t *testing.T) {
	good := Link{Device: "eth0", Capacity: 100e6, Reserve: 1, Scheduler: SchedulerFair}
	for _, tt := range []struct {
		name  string
		spoil func(*Link)
		want  string
	}{
		{"no device", func(l *Link) { l.Device = "" },
			`device "": a link without a device; name one, such as eth0`},
		{"no capacity", func(l *Link) { l.Capacity = 0 },
			`link eth0: bandwidth "": capacity is not known; set the link's bandwidth, such as 100mbit`},
		{"absurd capacity", func(l *Link) { l.Capacity = 100 },
			`link eth0: bandwidth "100bit": less than the smallest rate, 1 kbit/s; mind the unit: a number alone is in bits per second, 20 megabits are 20mbit`},
		{"reserve as a percentage", func(l *Link) { l.Reserve = 90 },
			`link eth0: reservable "90": the share that mins may take is above 0 and at most 1; write 1 for the whole link`},
		{"nothing reservable", func(l *Link) { l.Reserve = 0 },
			`link eth0: reservable "0": the share that mins may take is above 0 and at most 1; write 1 for the whole link`},
		{"unknown scheduler", func(l *Link) { l.Scheduler = "htb" },
			`link eth0: scheduler "htb": no such scheduler; write one of fair, qcon, ancs`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			link := good
			tt.spoil(&link)
			_, _, err := Build(link, nil, nil)
			var e *invalid.Error
			if err == nil || err.Error() != tt.want || !errors.As(err, &e) {
				t.Errorf("error is %v\nwant %s", err, tt.want)
			}
		})
	}
	if state, refusals, err := Build(good, nil, nil); err != nil || refusals != nil || formatState(state) != "link eth0 100mbit reserve=1 scheduler=fair\nclass 0 host weight=1\n" {
		t.Errorf("a good link gives\n%s%v, %v", formatState(state), refusals, err)
	}
}

// A workload whose policy is wrong in itself, which no parser lets through.
func TestBuildGivesTheDefaultForAWrongPolicy(t *testing.T) {
	link := Link{Device: "eth0", Capacity: 100e6, Reserve: 1, Scheduler: SchedulerFair}
	workloads := []Workload{{Key: "a", Name: "a", Policy: policy.Policy{Weight: 0, Max: policy.Amount{Rate: 5e6}}}}
	state, refusals, err := Build(link, workloads, map[string]ClassID{"a": 1})
	if err != nil || len(refusals) != 1 || len(state.Classes) != 2 || !state.Classes[1].Equal(usual(Class{ID: 1, Name: "a", Weight: 1})) {
		t.Errorf("got %+v, refused %+v, %v", state, refusals, err)
	}
}

func TestBuildWithoutANumber(t *testing.T) {
	link := Link{Device: "eth0", Capacity: 100e6, Reserve: 1, Scheduler: SchedulerFair}
	workloads := []Workload{
		{Key: "a", Name: "a", Policy: policy.Default(), Ports: []Port{{Device: "veth1", Ifindex: 1}}},
		{Key: "b", Name: "b", Policy: policy.Default()},
		{Key: "c", Name: "c", Policy: policy.Default()},
		{Key: "d", Name: "d", Policy: policy.Default()},
	}
	state, refusals, err := Build(link, workloads, map[string]ClassID{"b": MaxClasses, "c": 0, "d": 7})
	if err != nil || len(state.Classes) != 2 || len(state.Ports) != 0 || len(refusals) != 3 {
		t.Fatalf("got %+v, refused %+v, %v", state, refusals, err)
	}
	const want = "a: all class numbers are taken, its packets go with the host's; stop other workloads"
	if refusals[0].Err.Error() != want {
		t.Errorf("refused with %q, want %q", refusals[0].Err, want)
	}
}

// Whatever people ask for, the State can be held, no workload is lost, and each
// promise is in the State or refused.
func TestBuildIsAlwaysAdmissible(t *testing.T) {
	amount := rapid.OneOf(
		rapid.Just(policy.Amount{}),
		rapid.Map(rapid.IntRange(1, 100), func(n int) policy.Amount { return policy.Amount{Percent: float64(n)} }),
		rapid.Map(rapid.Uint64Range(1e3, 80e6), func(n uint64) policy.Amount { return policy.Amount{Rate: policy.Rate(n)} }),
	)
	rapid.Check(t, func(t *rapid.T) {
		link := Link{Device: "eth0", Capacity: policy.Rate(rapid.Uint64Range(1e6, 200e6).Draw(t, "capacity")),
			Reserve: rapid.Float64Range(0.01, 1).Draw(t, "reserve"), Scheduler: SchedulerFair}
		var workloads []Workload
		var keys []string
		for i := range rapid.IntRange(0, 8).Draw(t, "workloads") {
			w := Workload{Key: fmt.Sprint("k", i), Name: fmt.Sprint("n", i), Policy: policy.Policy{
				Weight: rapid.Uint32Range(0, 3).Draw(t, "weight"), Min: amount.Draw(t, "min"), Max: amount.Draw(t, "max"),
			}}
			for _, index := range rapid.SliceOfN(rapid.IntRange(1, 10), 0, 3).Draw(t, "ports") {
				w.Ports = append(w.Ports, Port{Device: fmt.Sprint("veth", index), Ifindex: index})
			}
			workloads, keys = append(workloads, w), append(keys, w.Key)
		}
		numbers := Number(nil, keys)
		s, refusals, err := Build(link, workloads, numbers)
		if err != nil {
			t.Fatal(err)
		}
		if s.Reserved() > link.Admission().Limit() {
			t.Errorf("mins of %s on a link that can hold %s", s.Reserved(), link.Admission().Limit())
		}
		if len(s.Classes) != len(workloads)+1 || s.Classes[0].ID != 0 {
			t.Errorf("%d classes for %d workloads and the host", len(s.Classes), len(workloads))
		}
		if !slices.IsSortedFunc(s.Ports, func(a, b Port) int { return a.Ifindex - b.Ifindex }) {
			t.Errorf("ports are out of order: %+v", s.Ports)
		}
		for _, w := range workloads {
			c, _ := s.Class(numbers[w.Key])
			refused := slices.ContainsFunc(refusals, func(r Refusal) bool { return r.Key == w.Key })
			kept := c.Weight == w.Policy.Weight && c.Min == w.Policy.Min.Of(link.Capacity) && c.Max == w.Policy.Max.Of(link.Capacity)
			if !kept && !refused {
				t.Errorf("%s asked %+v, has %+v, and nobody said why", w.Name, w.Policy, c)
			}
			if c.Max != 0 && c.Min > c.Max || c.Weight == 0 {
				t.Errorf("class that cannot be held: %+v", c)
			}
		}
	})
}
