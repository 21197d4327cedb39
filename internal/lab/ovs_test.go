// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"strings"
	"testing"

	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
)

func switchPort(t *testing.T, ovs string) *port {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte("link: {bandwidth: 8mbit}\novs: "+ovs+"\nworkloads: {h1: {}, h2: {}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return &port{s, &topology.Switch{}}
}

// What Open vSwitch is told for each discipline.
func TestRowsOfOVSHTB(t *testing.T) {
	const head = "set port up0 qos=@qos -- --id=@qos create qos type=linux-htb other-config:max-rate=8000000 "
	queue := func(id, low, priority string) string {
		return " -- --id=@q" + id + " create queue other-config:min-rate=" + low + " other-config:max-rate=8000000 other-config:priority=" + priority
	}
	tests := []struct{ name, ovs, want string }{
		{"cbwfq by min-rate", "{discipline: cbwfq, queues: {a: {min: 1mbit}, b: {min: 25%}}}",
			"queues:0=@q0 queues:1=@q1" + queue("0", "1000000", "0") + queue("1", "2000000", "0")},
		{"pq by priority", "{discipline: pq, htb_min: 80kbit, queues: {a: {match: [{udp: 1}]}, b: {}}}",
			"queues:0=@q0 queues:1=@q1" + queue("0", "80000", "0") + queue("1", "80000", "1")},
		{"llq by both", "{discipline: llq, queues: {a: {rate: 5mbit}, b: {min: 1mbit}}}",
			"queues:0=@q0 queues:1=@q1" + queue("0", "5000000", "0") + queue("1", "1000000", "1")},
		{"sfq by a queue for each host", "{discipline: sfq}",
			"queues:0=@q0 queues:1=@q1" + queue("0", "12000", "0") + queue("1", "12000", "0")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := switchPort(t, tt.ovs)
			if got := strings.Join(p.htbRows(p.file(true).Ports[0].Policy), " "); got != head+tt.want {
				t.Errorf("got  %s\nwant %s", got, head+tt.want)
			}
		})
	}
}

// Rules first, then each host's queue; hosts that name none share the rest's.
func TestFlowsOfASwitch(t *testing.T) {
	p := switchPort(t, "{discipline: pq, queues: {a: {match: [{udp: 1}, {dscp: ef}]}, b: {}}}")
	var got []string
	for _, f := range p.file(false).Flows {
		got = append(got, f.InPort+f.Match.String()+" "+f.Queue)
	}
	if want := "{udp: 1} a, {dscp: ef} a, w1{} b, w2{} b"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestPeersSayOnceWhatTheyIgnore(t *testing.T) {
	s, err := scenario.Parse("test.yaml", []byte(`link: {bandwidth: 8mbit}
groups: {g: {}}
workloads:
  a: {group: g, discipline: pq, queues: {x: {match: [{udp: 1}]}, y: {}}}
  b: {dscp: ef, discipline: fifo}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ignored(s.Promises()[0]), "|"); got != "this scheduler knows nothing of disciplines, queues, DSCP, groups" {
		t.Error(got)
	}
	if got := ignored(scenario.Promises{Workloads: []scenario.Policy{{Weight: 3, Min: 1e6}}}); got != nil {
		t.Error(got)
	}
}
