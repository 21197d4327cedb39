// SPDX-License-Identifier: Apache-2.0

package switchport

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/sdn/ovsdb"
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
		Queues: map[int]ovsdb.Queue{0: queue("min-rate", "12000", "priority", "3"), 7: queue("max-rate", "80000", "priority", "1"), 3: queue("max-rate", "8000000", "priority", "1")}}
	device := []ovsdb.Interface{{Name: "eth1"}}
	got, err := Decode(ovsdb.Port{Bridge: "s1", Name: "up0", Interfaces: device, QoS: &base})
	want := []policy.Queue{
		{Name: "q3", Priority: 1, Match: queueNumber(3)}, {Name: "q7", Priority: 1, Max: policy.Amount{Rate: 80e3}, Match: queueNumber(7)}, {Name: "q0", Priority: 2},
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
		{"min of pq", "queue 7: other_config:min-rate 4000000: pq holds no min of a queue; remove it, or use cbwfq or llq", func(_ *ovsdb.Port, q *ovsdb.QoS) { q.Queues[7] = queue("min-rate", "4000000") }},
		{"max of sfq", "queue 7: other_config:max-rate 80000: sfq finds its queues itself; remove it, or use pq, cbwfq or llq", func(_ *ovsdb.Port, q *ovsdb.QoS) { q.OtherConfig["weir-discipline"] = "sfq" }},
		{"burst", `queue 3: other_config:burst "80000": queues of Weir's send no burst above their max-rate; remove it`, func(_ *ovsdb.Port, q *ovsdb.QoS) { q.Queues[3] = queue("burst", "80000") }},
		{"strict without a rate", "queue 3: other_config:min-rate is missing: llq holds its first queue, by priority, to that rate", func(_ *ovsdb.Port, q *ovsdb.QoS) { q.OtherConfig["weir-discipline"] = "llq" }},
		{"max below min", `queue 7: other_config:max-rate "80kbit": is below the queue's min, 90 kbit/s`, func(_ *ovsdb.Port, q *ovsdb.QoS) {
			q.OtherConfig["weir-discipline"] = "cbwfq"
			q.Queues[7] = queue("min-rate", "90000", "max-rate", "80000")
		}},
		{"too small", `queue 7: other_config:max-rate "900bit"`, func(_ *ovsdb.Port, q *ovsdb.QoS) { q.Queues[7] = queue("max-rate", "900") }},
		{"too many", "9 queues, queue 0 among them, which Open vSwitch always has: 8 are the most; remove some", func(_ *ovsdb.Port, q *ovsdb.QoS) {
			for n := range 9 {
				q.Queues[n] = queue()
			}
		}},
		{"too many with queue 0", "9 queues, queue 0 among them", func(_ *ovsdb.Port, q *ovsdb.QoS) {
			q.Queues = map[int]ovsdb.Queue{}
			for n := range 8 {
				q.Queues[100+n] = queue()
			}
		}},
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

// TestQueueZero: what is in no queue, or in one that is not there, goes where Open vSwitch's HTB
// sends it, into queue 0, whether there is a row for it or not; never into another's min.
func TestQueueZero(t *testing.T) {
	for _, tt := range []struct {
		name string
		rows map[int]ovsdb.Queue
		own  bool
		want []policy.Queue
	}{
		{"with a row", map[int]ovsdb.Queue{0: {OtherConfig: map[string]string{"min-rate": "2000000"}}, 123: {OtherConfig: map[string]string{"min-rate": "4000000"}}}, false,
			[]policy.Queue{{Name: "q0", Min: policy.Amount{Rate: 2e6}}, {Name: "q123", Min: policy.Amount{Rate: 4e6}, Match: queueNumber(123)}}},
		{"without", map[int]ovsdb.Queue{1023: {}, 61439: {OtherConfig: map[string]string{"min-rate": "4000000", "max-rate": "5000000"}}}, false,
			[]policy.Queue{{Name: "q1023", Min: policy.Amount{Rate: 12e3}, Match: queueNumber(1023)},
				{Name: "q61439", Min: policy.Amount{Rate: 4e6}, Max: policy.Amount{Rate: 5e6}, Match: queueNumber(61439)}, {Name: "q0", Min: policy.Amount{Rate: 12e3}}}},
		{"Weir's own", map[int]ovsdb.Queue{0: {}, 1: {}}, true, []policy.Queue{{Name: "q0", Match: queueNumber(0)}, {Name: "q1", Match: queueNumber(1)}}},
	} {
		q := &ovsdb.QoS{Type: ovsdb.Noop, OtherConfig: map[string]string{"max-rate": "8000000", "weir-discipline": "cbwfq"}, Queues: tt.rows}
		if tt.own {
			q.ExternalIDs = map[string]string{ovsdb.Owner: "s1/up0"}
		}
		got, err := Decode(ovsdb.Port{Bridge: "s1", Name: "up0", Interfaces: []ovsdb.Interface{{Name: "up0"}}, QoS: q})
		if err != nil || !reflect.DeepEqual(got.Policy.Queues, tt.want) {
			t.Errorf("%s: got %+v, %v", tt.name, got.Policy.Queues, err)
		}
	}
}
