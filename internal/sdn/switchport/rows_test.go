// SPDX-License-Identifier: Apache-2.0

package switchport

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"weir/internal/policy"
	"weir/internal/policy/classify"
	"weir/internal/policy/discipline"
	"weir/internal/sdn/ovsdb"
)

func queueNumber(n uint16) []classify.Match { return []classify.Match{{Queue: classify.Given(n)}} }

func TestRowsAreReadAsWritten(t *testing.T) {
	want := Port{Bridge: "s1", Name: "up0", Device: "up0", Bandwidth: 8e6, Policy: policy.Policy{
		Weight: 1, Discipline: discipline.LLQ, AQM: discipline.AQM{Target: 5e6, Interval: 100e6},
		Queues: []policy.Queue{ // the order is not that of the numbers
			{Name: "voice", Rate: policy.Amount{Rate: 1e6}, DSCP: new(uint8(46)), Match: queueNumber(5)},
			{Name: "rest", Min: policy.Amount{Rate: 2e6}, LimitPackets: 100, Match: queueNumber(0)},
		},
	}}
	q := Encode(want)
	got, err := Decode(ovsdb.Port{Bridge: "s1", Name: "up0", Interfaces: []ovsdb.Interface{{Name: "up0"}}, QoS: q})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	if !q.Own() || q.Type != ovsdb.Noop {
		t.Errorf("row %+v", q)
	}
	want.Policy.Queues[1].Min = policy.Amount{Percent: 25}
	if rate := Encode(want).Queues[0].OtherConfig["min-rate"]; rate != "2000000" {
		t.Errorf("a quarter of 8 Mbit/s is %s", rate)
	}
}

// TestOthersRows: rows that another tool wrote, with Open vSwitch's own columns
// and the discipline's name.
func TestOthersRows(t *testing.T) {
	queue := func(pairs ...string) ovsdb.Queue {
		q := ovsdb.Queue{OtherConfig: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			q.OtherConfig[pairs[i]] = pairs[i+1]
		}
		return q
	}
	base := ovsdb.QoS{Type: ovsdb.Noop, OtherConfig: map[string]string{"max-rate": "8000000", "weir-discipline": "pq"},
		Queues: map[int]ovsdb.Queue{0: queue("min-rate", "80000", "priority", "3"), 7: queue("min-rate", "80000", "priority", "1"), 3: queue("priority", "1")}}
	device := []ovsdb.Interface{{Name: "eth1"}}
	got, err := Decode(ovsdb.Port{Bridge: "s1", Name: "up0", Interfaces: device, QoS: &base})
	want := []policy.Queue{
		{Name: "q3", Priority: 1, Match: queueNumber(3)}, {Name: "q7", Priority: 1, Match: queueNumber(7)}, {Name: "q0", Priority: 2, Match: queueNumber(0)},
	}
	if err != nil || got.Device != "eth1" || !reflect.DeepEqual(got.Policy.Queues, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, tt := range []struct {
		name, want string
		change     func(p *ovsdb.Port, q *ovsdb.QoS)
	}{
		{"htb", `QoS type "linux-htb" makes Open vSwitch schedule the port itself; set it to linux-noop`, func(_ *ovsdb.Port, q *ovsdb.QoS) { q.Type = "linux-htb" }},
		{"no rate", "QoS has no other_config:max-rate; say what the port can send, in bits per second", func(_ *ovsdb.Port, q *ovsdb.QoS) { delete(q.OtherConfig, "max-rate") }},
		{"no number", `other_config:max-rate "8mbit" is no whole number; write digits only`, func(_ *ovsdb.Port, q *ovsdb.QoS) { q.OtherConfig["max-rate"] = "8mbit" }},
		{"number of a queue", "queue 70000: set_queue reaches numbers from 0 to 61439 only; use a lower one", func(_ *ovsdb.Port, q *ovsdb.QoS) { q.Queues[70000] = queue() }},
		{"a tunnel", "port up0 of bridge s1 is of type vxlan, which has no device of its own to schedule; name the port that leads to the wire",
			func(p *ovsdb.Port, _ *ovsdb.QoS) { p.Interfaces = []ovsdb.Interface{{Name: "v", Type: "vxlan"}} }},
		{"too much", "above the link's capacity", func(_ *ovsdb.Port, q *ovsdb.QoS) {
			q.OtherConfig["weir-discipline"] = "cbwfq"
			q.Queues = map[int]ovsdb.Queue{0: queue("min-rate", "9000000")}
		}},
	} {
		q := base
		q.OtherConfig, q.Queues = maps.Clone(base.OtherConfig), maps.Clone(base.Queues)
		p := ovsdb.Port{Bridge: "s1", Name: "up0", Interfaces: device, QoS: &q}
		tt.change(&p, &q)
		if _, err := Decode(p); err == nil || !strings.HasPrefix(err.Error(), "port up0 of bridge s1") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", tt.name, err, tt.want)
		}
	}
	if IsPort(ovsdb.Port{}) || IsPort(ovsdb.Port{QoS: &ovsdb.QoS{Type: ovsdb.Noop}}) {
		t.Error("a port without a discipline is taken")
	}
}
