// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/policy"
)

func TestParseWhatIsInside(t *testing.T) {
	c, err := Parse("weir.yaml", []byte(`
workloads:
  phone:
    discipline: llq
    queues:                 # in order
      voice: {rate: 1mbit, match: [{udp: 5001}]}
      video: {min: 3mbit, match: [{udp: [5002, 6000-6010]}, {dscp: 34}], dscp: af41, limit_packets: 50}
      rest:  {min: 1mbit}
    aqm: {target: 2ms}
    dscp: ef
    group: tenant-b
  other:
    discipline: PQ
    queues:
      - name: high
        match: {preset: voip}
      - {name: low}
    aqm: off
    group: none
    dscp: none
groups:
  tenant-b: {weight: 2, min: 10mbit, max: 40%}
  empty:
`))
	if err != nil {
		t.Fatal(err)
	}
	match := func(text string) []policy.Match {
		m, err := policy.ParseMatches(text)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	rate := func(mbit policy.Rate) policy.Amount { return policy.Amount{Rate: mbit * 1e6} }
	want := []Rule{
		{"phone", Layer{
			Discipline: new(policy.LLQ),
			Queues: &[]policy.Queue{
				{Name: "voice", Rate: rate(1), Match: match("{udp: 5001}")},
				{Name: "video", Min: rate(3), Match: match("[{udp: [5002, 6000-6010]}, {dscp: 34}]"), DSCP: new(uint8(34)), LimitPackets: 50},
				{Name: "rest", Min: rate(1)},
			},
			AQM: &policy.AQM{Target: 2 * time.Millisecond}, DSCP: new(new(uint8(46))), Group: new("tenant-b"),
		}},
		{"other", Layer{
			Discipline: new(policy.PQ), Queues: &[]policy.Queue{{Name: "high", Match: match("{preset: voip}")}, {Name: "low"}},
			AQM: &policy.AQM{Off: true}, DSCP: new((*uint8)(nil)), Group: new(""),
		}},
	}
	if !reflect.DeepEqual(c.Workloads, want) {
		t.Errorf("got  %+v\nwant %+v", c.Workloads, want)
	}
	groups := []Group{
		{"tenant-b", Layer{Weight: new(uint32(2)), Min: &policy.Amount{Rate: 10e6}, Max: &policy.Amount{Percent: 40}}},
		{"empty", Layer{}},
	}
	if !reflect.DeepEqual(c.Groups, groups) {
		t.Errorf("groups are %+v\nwant %+v", c.Groups, groups)
	}
}

// Rules that overlap are no mistake, but named with their place.
func TestOverlapsAreWarnedOf(t *testing.T) {
	c, err := Parse("weir.yaml", []byte(`
defaults: {aqm: off}
workloads:
  web:
    discipline: pq
    queues: {a: {match: {udp: 1-10}}, b: {match: {udp: 5-20}}, c: {}}
  db:
    queues: {a: {match: {udp: 1-10}}, b: {match: {udp: 5}}, c: {match: {udp: 8-12}}}
`))
	want := `weir.yaml:8:5: workloads.db.queues.b: "{udp: 5}": can never fit, {udp: 1-10} in queue a takes its packets before; put queue b before queue a, or remove the match`
	if err == nil || err.Error() != want || c.Warnings != nil {
		t.Errorf("got  %v and %q\nwant %s", err, c.Warnings, want)
	}
	c, err = Parse("weir.yaml", []byte(`
workloads:
  web:
    discipline: pq
    queues: {a: {match: {udp: 1-10}}, b: {match: {udp: 5-20}}, c: {}}
`))
	want = `weir.yaml:4:5: workloads.web.queues.b: "{udp: 5-20}": {udp: 1-10} in queue a takes some of its packets before; write ranges that do not overlap, if that is not meant`
	if err != nil || len(c.Warnings) != 1 || c.Warnings[0] != want {
		t.Errorf("got  %v and %q\nwant %s", err, c.Warnings, want)
	}
}

// A discipline without queues is all that has to be said to be rid of queues.
func TestDisciplineWithoutQueuesTakesThemAway(t *testing.T) {
	var below, above Layer
	for _, put := range []struct {
		l           *Layer
		field, text string
	}{
		{&below, "discipline", "pq"}, {&below, "queues", "a: {match: {udp: 1}}\nb: {}"}, {&above, "discipline", "fifo"},
	} {
		if err := put.l.Put(put.field, put.text); err != nil {
			t.Fatal(err)
		}
	}
	for name, p := range map[string]policy.Policy{
		"over":  below.Over(above).Apply(policy.Default()),
		"apply": above.Apply(below.Apply(policy.Default())),
	} {
		if p.Discipline != policy.FIFO || len(p.Queues) != 0 || p.Check() != nil {
			t.Errorf("%s: %+v, %v", name, p, p.Check())
		}
	}
	if p := below.Apply(policy.Default()); len(p.Queues) != 2 || p.Check() != nil {
		t.Errorf("%+v, %v", p, p.Check())
	}
}

func TestParseQueues(t *testing.T) {
	const remedy = "; write it as {voice: {rate: 1mbit, match: [{udp: 5001}]}, rest: {}}"
	for _, tt := range []struct{ text, want string }{
		{"", ""}, {"none", ""}, {" None ", ""},
		{"a: {}", "a"}, {"{a: {min: 1mbit}, b: {}}", "a b"}, {"a:\n  min: 1mbit\nb:\n", "a b"},
		{`[{"name":"a","match":[{"udp":5001},{"tcp":[80,"8000-8010"]}]},{"name":"b"}]`, "a b"},
		{"{a: {rate: 1mbps}}", `queues.a.rate "1mbps": tc reads mbps as megabytes a second, others as megabits; write 8mbit if you mean 1 megabytes a second, 1mbit if you mean 1 megabits a second`},
		{"{a: {match: [{udp: 5001}, {upd: 1}]}}", `queues.a.match[1] "upd": no such key; known here: preset, proto, tcp, udp, sport, dport, src, dst, dscp, vlan, priority, mark, queue`},
		{"{a: {mtach: []}}", `queues.a.mtach "{a: {mtach: []}}": unknown key "mtach"; did you mean "match"?` + remedy},
		{"[1, 2]", `queues[0] "[1, 2]": the single value "1" where fields are expected` + remedy},
		{"voice", `queues "voice": the single value "voice" where fields are expected` + remedy},
	} {
		queues, err := ParseQueues(tt.text)
		var names []string
		for _, q := range queues {
			names = append(names, q.Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		var mistake *policy.Error
		if got != tt.want || err != nil && !errors.As(err, &mistake) || err == nil && queues == nil {
			t.Errorf("%q\ngives %s\nwant  %s", tt.text, got, tt.want)
		}
	}
	if _, err := ParseQueues("{a: {"); err == nil || !strings.HasPrefix(err.Error(), `queues "{a: {": `) {
		t.Errorf("unfinished: %v", err)
	}
}

// What is read as queues is never more than was written, and never panics.
func FuzzParseQueues(f *testing.F) {
	for _, seed := range []string{"a: {}", "{voice: {rate: 1mbit, match: [{udp: 5001}]}, rest: {}}", `[{"name":"a","match":[{"udp":5001}]}]`, "none", "&a [*a]", "a: &x {match: *x}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		queues, err := ParseQueues(text)
		var mistake *policy.Error
		if err != nil && !errors.As(err, &mistake) {
			t.Errorf("%q: %v is no *policy.Error", text, err)
		}
		if len(queues) > len(text) {
			t.Errorf("%q: %d queues", text, len(queues))
		}
	})
}
