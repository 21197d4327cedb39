// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir/internal/core/policy/discipline"
)

const inside8 = `link: {bandwidth: 8mbit}
workloads:
  w:
    discipline: DISCIPLINE
    queues: QUEUES
    traffic:
      - udp: {rate: 5mbit, port: 5001}
      - udp: {rate: 5mbit, port: 5002}
      - udp: {rate: RATE, port: 5003}
      - tcp: {port: 5004}
      - ping: {dscp: ef}
`

// What the disciplines make of 8 Mbit/s; the flows are 5, 5, RATE and everything.
func TestInsideIdeals(t *testing.T) {
	const none = -1
	tests := []struct {
		name, discipline, queues, rate string
		wantQueues, wantFlows          []float64 // Mbit/s, without ping
	}{
		{"fifo promises its flows nothing", "fifo", "none", "1mbit", nil, []float64{none, none, none, none}},
		{"sfq divides evenly", "sfq", "none", "1mbit", nil, []float64{7. / 3, 7. / 3, 1, 7. / 3}},
		{"pq starves the last", "pq", "{a: {match: [{udp: 5001}]}, b: {match: [{udp: 5002}]}, c: {}}", "1mbit",
			[]float64{5, 3, 0}, []float64{5, 3, 0, 0}},
		{"cbwfq by mins, what is left in proportion", "cbwfq",
			"{a: {min: 1mbit, match: [{udp: 5001}]}, b: {min: 2mbit, match: [{udp: 5002}]}, c: {min: 1mbit, match: [{udp: 5003}]}, d: {min: 4mbit}}", "400kbit",
			[]float64{7.6 / 7, 15.2 / 7, 0.4, 30.4 / 7}, []float64{7.6 / 7, 15.2 / 7, 0.4, 30.4 / 7}},
		{"llq's first is held to its rate while others wait", "llq",
			"{a: {rate: 1mbit, match: [{udp: 5001}]}, b: {min: 2mbit, match: [{udp: 5002}]}, c: {min: 1mbit}}", "1mbit",
			[]float64{1, 14. / 3, 7. / 3}, []float64{1, 14. / 3, 1, 4. / 3}},
		{"llq's queue of a share of the link", "llq", "{a: {rate: 25%, match: [{udp: 5001}]}, b: {}}", "1mbit",
			[]float64{2, 6}, []float64{2, 2.5, 1, 2.5}},
		{"the rest without turns promises its flows nothing", "llq, isolation: none", "{a: {rate: 25%, match: [{udp: 5001}]}, b: {}}", "1mbit",
			[]float64{2, 6}, []float64{2, none, none, none}},
		{"nor does one with a max", "llq", "{a: {rate: 25%, match: [{udp: 5001}]}, b: {max: 7mbit}}", "1mbit",
			[]float64{2, 6}, []float64{2, none, none, none}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := replace(inside8, "DISCIPLINE", strings.ReplaceAll(tt.discipline, ", ", "\n    "), "QUEUES", tt.queues, "RATE", tt.rate)
			s := mustParse(t, text)
			st := s.Ideals(nil)[0]
			mega := func(what string, got, want []float64) {
				t.Helper()
				if len(got) < len(want) {
					t.Fatalf("%s: %v, want %v", what, got, want)
				}
				for i, v := range want {
					if v == none && !math.IsNaN(got[i]) || v != none && !(math.Abs(got[i]/1e6-v) < 1e-3) {
						t.Errorf("%s %d: %v, want %v Mbit/s", what, i+1, got[i], v)
					}
				}
			}
			mega("queue", st.Queues[0], tt.wantQueues)
			mega("flow", st.Flows, append(tt.wantFlows, none))
		})
	}
}

func replace(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }

func TestOverlapsAreNamed(t *testing.T) {
	s := mustParse(t, replace(inside8, "DISCIPLINE", "pq", "RATE", "1mbit",
		"QUEUES", "{a: {match: [{udp: 5001-5002}]}, b: {match: [{udp: 5002-5003}]}, c: {}}"))
	want := `w: queues.b "{udp: 5002-5003}": {udp: 5001-5002} in queue a takes some of its packets before; write ranges that do not overlap, if that is not meant`
	if got := s.Warnings(); len(got) != 1 || got[0] != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestEntriesAndTheirQueues(t *testing.T) {
	s := mustParse(t, `link: {bandwidth: 100mbit}
workloads:
  a:
    discipline: pq
    queues: {voice: {match: [{dscp: ef}]}, web: {match: [{tcp: 80}]}, rest: {}}
    traffic: [{tcp: {}}, {tcp: {}}, {tcp_rr: {port: 80}}, {ping: {dscp: ef, name: probe}}, {udp: {rate: 1mbit, port: 5201}}]
phases: [{for: 5s}, {for: 5s, set: {a: {traffic: [{tcp: {}}, {udp_rr: {}}]}}}]
`)
	var names []string
	for _, e := range s.Entries() {
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != "tcp tcp#2 tcp_rr:80 probe udp:5201 udp_rr" {
		t.Errorf("entries: %s", got)
	}
	want := map[string]struct {
		port  int
		queue string
	}{"tcp": {5202, "rest"}, "tcp#2": {5203, "rest"}, "tcp_rr:80": {80, "web"}, "probe": {0, "voice"}, "udp:5201": {5201, "rest"}, "udp_rr": {0, "rest"}}
	p := s.Policies()[0][0]
	for _, f := range s.Flows() {
		if f.From >= 5*time.Second && f.Name == "tcp" {
			continue // the second list's, which has a port of its own
		}
		if w := want[f.Name]; f.Listen != w.port || p.Queues[p.QueueOf(f)].Name != w.queue {
			t.Errorf("%s: port %d, queue %s; want %+v", f.Name, f.Listen, p.Queues[p.QueueOf(f)].Name, w)
		}
	}
}

// Groups at both levels, changed at run time.
func TestGroupIdeals(t *testing.T) {
	s := mustParse(t, `link: {bandwidth: 100mbit}
groups: {g: {weight: 1}}
workloads:
  a: {group: g, weight: 1, traffic: [{tcp: {}}]}
  b: {group: g, weight: 3, traffic: [{tcp: {}}]}
  c: {weight: 1, traffic: [{tcp: {}}]}
phases:
  - {for: 5s}
  - {for: 5s, groups: {g: {max: 40mbit}}}
  - {for: 5s, set: {a: {min: 30mbit}}}
  - {for: 5s, set: {a: {group: none, min: none}}}
`)
	for i, want := range [][]float64{{12.5e6, 37.5e6, 50e6}, {10e6, 30e6, 60e6}, {30e6, 10e6, 60e6}, {100e6 / 3, 100e6 / 3, 100e6 / 3}} {
		near(t, s.Spans()[i].From.String(), s.Ideals(nil)[i].Ideal, want)
	}
}

// A discipline that is changed takes the queues that it has no use for away, and
// what the file says of one key leaves the others as they are.
func TestInsideChanges(t *testing.T) {
	s := mustParse(t, `link: {bandwidth: 100mbit}
workloads:
  a: {discipline: pq, aqm: {target: 1ms, interval: 50ms}, dscp: af41, queues: [{name: x, match: [{udp: 1}]}, {name: y, min: none}]}
phases: [{for: 5s}, {for: 5s, set: {a: {discipline: sfq, aqm: off, dscp: none}}}]
`)
	first, second := s.Policies()[0][0], s.Policies()[1][0]
	if first.Discipline != discipline.PQ || len(first.Queues) != 2 || first.AQM.Interval != 50*time.Millisecond || *first.DSCP != 34 {
		t.Errorf("phase 1: %+v", first)
	}
	if second.Discipline != discipline.SFQ || len(second.Queues) != 0 || !second.AQM.Off || second.DSCP != nil {
		t.Errorf("phase 2: %+v", second)
	}
}

// At a switch the port's discipline divides, and hosts and rules say which queue.
func TestSwitchIdeals(t *testing.T) {
	s := mustParse(t, `link: {bandwidth: 8mbit}
ovs: {discipline: pq, queues: {a: {match: [{udp: 5001}]}, b: {}, c: {}}}
workloads:
  h1: {queue: c, traffic: [{udp: {rate: 5mbit, port: 5001}}, {udp: {rate: 2mbit, port: 5009}}]}
  h2: {queue: c, traffic: [{udp: {rate: 2mbit, port: 5002}}]}
  h3: {traffic: [{udp: {rate: 1mbit, port: 5003}}]}
phases: [{for: 5s}, {for: 5s, set: {h3: {traffic: off}}}]
`)
	var queues []string
	for _, f := range s.Flows() {
		queues = append(queues, f.Name+" "+s.QueueName(Policy{}, f))
	}
	if got := strings.Join(queues, ", "); got != "udp:5001 a, udp:5009 c, udp:5002 c, udp:5003 b" {
		t.Errorf("queues: %s", got)
	}
	// 5 of 8 for a, 1 for b; the two flows of c share the rest.
	near(t, "phase 1", s.Ideals(nil)[0].Ideal, []float64{6e6, 1e6, 1e6})
	near(t, "phase 2", s.Ideals(nil)[1].Ideal, []float64{6.5e6, 1.5e6, 0})
}

// With the link's direction turned round, so are the flows.
func TestIngress(t *testing.T) {
	s, err := Parse("x.yaml", []byte("link: {bandwidth: 10mbit, direction: ingress}\nworkloads: {c1: {traffic: [{udp: {rate: 1mbit, port: 5001}}]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := s.Flows()[0]
	from, to := f.Ends()
	p := f.Packet()
	if !s.Link.Ingress || from != ServerAddress(0) || to != Address(0) || p.Src != from || p.Dst != to || p.Dport != 5001 {
		t.Errorf("from %v to %v, packet %+v", from, to, p)
	}
	if _, err := Parse("x.yaml", []byte("link: {bandwidth: 10mbit, direction: inward}\nworkloads: {c1: {}}\n")); err == nil {
		t.Error("a direction that is none is accepted")
	}
}

// TestInsideByHosts: with an isolation each host has as much, whatever its streams.
func TestInsideByHosts(t *testing.T) {
	for isolation, want := range map[string][3]float64{"flows": {6, 1, 1}, "dsthost": {math.NaN(), math.NaN(), 4}, "srchost": {math.NaN(), math.NaN(), math.NaN()}, "hosts": {math.NaN(), math.NaN(), 4}} {
		s := mustParse(t, "link: {bandwidth: 8mbit}\nworkloads: {gw: {isolation: "+isolation+", traffic: [{tcp: {streams: 6}}, {tcp: {name: b}}, {tcp: {host: 2, name: c}}]}}\nphases: [{for: 5s}]\n")
		parts := s.Ideals(nil)[0].Flows
		for i, mbit := range want {
			if got := parts[i] / 1e6; math.Abs(got-mbit) > 0.001 || math.IsNaN(got) != math.IsNaN(mbit) {
				t.Errorf("%s: flow %d has %v, want %v", isolation, i, got, mbit)
			}
		}
	}
}
