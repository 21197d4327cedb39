// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"testing"
	"time"

	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
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
	match := func(text string) []classify.Match {
		m, err := classify.ParseMatches(text)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	rate := func(mbit policy.Rate) policy.Amount { return policy.Amount{Rate: mbit * 1e6} }
	want := []Rule{
		{"phone", policy.MustChange("discipline", "llq", "aqm", "2ms/100ms", "dscp", "ef", "group", "tenant-b")},
		{"other", policy.MustChange("discipline", "pq", "aqm", "off", "dscp", "none", "group", "none")},
	}
	want[0].Layer.Set("queues", func(p *policy.Policy) {
		p.Queues = []policy.Queue{
			{Name: "voice", Rate: rate(1), Match: match("{udp: 5001}")},
			{Name: "video", Min: rate(3), Match: match("[{udp: [5002, 6000-6010]}, {dscp: 34}]"), DSCP: new(uint8(34)), LimitPackets: 50},
			{Name: "rest", Min: rate(1)},
		}
	})
	want[0].Layer.Set("aqm", func(p *policy.Policy) { p.AQM = discipline.AQM{Target: 2 * time.Millisecond} })
	want[1].Layer.Set("queues", func(p *policy.Policy) {
		p.Queues = []policy.Queue{{Name: "high", Match: match("{preset: voip}")}, {Name: "low"}}
	})
	if !reflect.DeepEqual(c.Workloads, want) {
		t.Errorf("got  %+v\nwant %+v", c.Workloads, want)
	}
	groups := []Group{
		{"tenant-b", policy.MustChange("weight", "2", "min", "10mbit", "max", "40%")},
		{"empty", policy.Change{}},
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
