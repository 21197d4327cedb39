// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
)

var fullLink = Link{Device: "eth0", Capacity: 100e6, Reserve: 1, Scheduler: SchedulerFair}

func mustMatch(t *testing.T, text string) []classify.Match {
	t.Helper()
	m, err := classify.ParseMatches(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// build is the class that one workload gets, and what it is refused.
func build(t *testing.T, p policy.Policy) (Class, []Refusal) {
	t.Helper()
	p.Weight = 1
	s, refusals, err := Build(fullLink, []Workload{{Key: "a", Name: "a", Policy: p}}, map[string]ClassID{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := s.Class(1)
	return c, refusals
}

func TestBuildResolvesQueues(t *testing.T) {
	rate := func(mbit policy.Rate) policy.Amount { return policy.Amount{Rate: mbit * 1e6} }
	ef := uint8(46)
	for _, tt := range []struct {
		name   string
		policy policy.Policy
		want   string // as Diff says it
		queues string // name, rate, weight
	}{
		{"nothing asked", policy.Policy{}, "weight 1", "[]"},
		{"fifo has no AQM", policy.Policy{Discipline: discipline.FIFO}, "weight 1, discipline fifo", "[]"},
		{"fifo with AQM", policy.Policy{Discipline: discipline.FIFO, AQM: discipline.AQM{Target: time.Millisecond}}, "weight 1, discipline fifo, aqm 1ms/100ms", "[]"},
		{"sfq without AQM, marked", policy.Policy{AQM: discipline.AQM{Off: true}, DSCP: &ef}, "weight 1, aqm off, dscp ef", "[]"},
		{"llq", policy.Policy{Discipline: discipline.LLQ, Queues: []policy.Queue{
			{Name: "voice", Rate: rate(1), Match: mustMatch(t, "[{udp: 5001}, {dscp: ef}]")},
			{Name: "video", Min: policy.Amount{Percent: 3}, DSCP: &ef, LimitPackets: 50, Match: mustMatch(t, "{tcp: 80}")},
			{Name: "rest", Min: rate(1)},
		}}, "weight 1, discipline llq, queues voice (rate 1 Mbit/s; {udp: 5001}; {dscp: ef}), video (min 3 Mbit/s; dscp ef; limit 50 packets; {tcp: 80}), rest (min 1 Mbit/s)",
			"[voice 1000000 1000000, video 0 3000000, rest 0 1000000]"},
		{"cbwfq without mins", policy.Policy{Discipline: discipline.CBWFQ, Queues: []policy.Queue{{Name: "a", Match: mustMatch(t, "{udp: 1}")}, {Name: "b"}}},
			"weight 1, discipline cbwfq, queues a ({udp: 1}), b", "[a 0 1, b 0 1]"},
		{"pq", policy.Policy{Discipline: discipline.PQ, Queues: []policy.Queue{{Name: "a"}}}, "weight 1, discipline pq, queues a", "[a 0 0]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, refusals := build(t, tt.policy)
			var queues []string
			for _, q := range c.Queues {
				queues = append(queues, fmt.Sprint(q.Name, " ", uint64(q.Rate), " ", uint64(q.Weight)))
			}
			if got := "[" + strings.Join(queues, ", ") + "]"; got != tt.queues || refusals != nil {
				t.Errorf("queues %s, want %s; refused %v", got, tt.queues, refusals)
			}
			if got := addClass(c, State{}).Text; got != "add a: "+tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

// A mistake inside a workload costs it the wrong field, and nothing else.
func TestBuildWithoutWhatIsWrongInside(t *testing.T) {
	dscp := uint8(99)
	rate := policy.Amount{Rate: 20e6}
	c, refusals := build(t, policy.Policy{
		Min: rate, Max: policy.Amount{Rate: 50e6}, Discipline: discipline.CBWFQ, AQM: discipline.AQM{Target: time.Second}, DSCP: &dscp,
		Queues: []policy.Queue{{Name: "a", Min: rate, Match: mustMatch(t, "{udp: 1}")}, {Name: "b", Min: rate}},
	})
	var fields []string
	for _, r := range refusals {
		field, _, _ := strings.Cut(strings.TrimPrefix(r.Err.Error(), "a: "), " ")
		fields = append(fields, field)
	}
	want := usual(Class{ID: 1, Name: "a", Weight: 1, Min: 20e6, Max: 50e6})
	if got := strings.Join(fields, " "); got != "aqm dscp queues" || !c.Equal(want) {
		t.Errorf("refused %s, class %+v", got, c)
	}
}

// A change of rules alone has words too.
func TestChangeOfRules(t *testing.T) {
	class := func(match string) Class {
		c, _ := build(t, policy.Policy{Discipline: discipline.PQ, Queues: []policy.Queue{{Name: "a", Match: mustMatch(t, match)}, {Name: "b"}}})
		return c
	}
	changes := Diff(State{Link: fullLink, Classes: []Class{class("{udp: 1}")}}, State{Link: fullLink, Classes: []Class{class("{udp: 2}")}})
	if len(changes) != 1 || changes[0].Text != "a: queues a ({udp: 1}), b -> a ({udp: 2}), b" {
		t.Errorf("%v", changes)
	}
}

// A group that can have no number leaves its members without one.
func TestBuildGroupWithoutANumber(t *testing.T) {
	s, refusals, err := Build(fullLink, []Workload{
		{Key: "a", Name: "a", Policy: policy.Policy{Weight: 1, Group: "g"}},
		{Key: GroupKey("g"), Name: "g", Policy: policy.Policy{Weight: 1, Min: policy.Amount{Rate: 1e6}}, Group: true},
	}, map[string]ClassID{"a": 1})
	if c, _ := s.Class(1); err != nil || c.Parent != 0 || len(s.Classes) != 2 || len(refusals) != 2 ||
		refusals[1].Err.Error() != `a: group "g": has no class number; stop workloads` ||
		!strings.HasSuffix(refusals[0].Err.Error(), "its members count for themselves; stop workloads") {
		t.Errorf("%+v, refused %v, %v", s, refusals, err)
	}
}

// A group is placed once, also if it is named twice.
func TestBuildGroupTwice(t *testing.T) {
	g := Workload{Key: GroupKey("g"), Name: "g", Policy: policy.Policy{Weight: 1, Min: policy.Amount{Rate: 1e6}}, Group: true}
	s, refusals, err := Build(fullLink, []Workload{g, g}, map[string]ClassID{g.Key: 1})
	if err != nil || refusals != nil || len(s.Classes) != 2 || s.Reserved() != 1e6 {
		t.Errorf("%+v, refused %v, %v", s, refusals, err)
	}
}

// Whatever people ask for, groups and members can be held: the members' mins fit
// within their group's, the groups' within the link, and Diff gets there from
// anywhere.
func TestBuildOfGroupsIsAlwaysAdmissible(t *testing.T) {
	amount := rapid.OneOf(rapid.Just(policy.Amount{}), rapid.Map(rapid.Uint64Range(1e3, 80e6), func(n uint64) policy.Amount {
		return policy.Amount{Rate: policy.Rate(n)}
	}))
	draw := func(t *rapid.T) State {
		var workloads []Workload
		numbers := map[string]ClassID{}
		add := func(w Workload) {
			w.Policy.Weight = 1
			w.Policy.Min, w.Policy.Max = amount.Draw(t, "min"), amount.Draw(t, "max")
			workloads = append(workloads, w)
			numbers[w.Key] = ClassID(len(numbers) + 1)
		}
		for i := range 3 {
			name := fmt.Sprint("g", i)
			add(Workload{Key: GroupKey(name), Name: name, Group: true})
		}
		for i := range 5 {
			group := rapid.SampledFrom([]string{"", "g0", "g1", "g2", "none of them"}).Draw(t, "group")
			add(Workload{Key: fmt.Sprint("k", i), Name: fmt.Sprint("n", i), Policy: policy.Policy{Group: group}})
		}
		workloads = rapid.Permutation(workloads).Draw(t, "order")
		s, _, err := Build(fullLink, workloads, numbers)
		if err != nil {
			t.Fatal(err)
		}
		if problem := groupProblem(s); problem != "" || s.Reserved() > fullLink.Capacity {
			t.Fatalf("%s; %s reserved:\n%s", problem, s.Reserved(), formatState(s))
		}
		return s
	}
	rapid.Check(t, func(t *rapid.T) {
		have, want := draw(t), draw(t)
		apply(t, have, Diff(have, want))
	})
}
