// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
)

func TestSwitchProblems(t *testing.T) {
	problems(t, "testdata/switch/*.yaml", func(text []byte) error { _, err := ParseSwitch("s1.yaml", text); return err })
}

func TestParseSwitch(t *testing.T) {
	got, err := ParseSwitch("s1.yaml", []byte(`
bridge: s1
ovsdb: unix:/tmp/ovs/db.sock
ports:
  up0:
    bandwidth: 8mbit
    discipline: llq
    queues: {voice: {rate: 1mbit, dscp: ef}, rest: {min: 50%, limit_packets: 100}}
    aqm: {target: 10ms, interval: 200ms}
  up1: {bandwidth: 1gbit, discipline: pq, queues: {best: {}, voice: {}}, aqm: off}
flows:
  - {match: {in_port: h1, dl_dst: "02:00:00:00:00:0A", udp: [5001, 6000-6010]}, port: up0, queue: voice, forward: true}
  - {match: {preset: voip, src: 10.0.0.0/8}, queue: voice}
`))
	if err != nil {
		t.Fatal(err)
	}
	number := func(n uint16) []classify.Match { return []classify.Match{{Queue: classify.Given(n)}} }
	want := Switch{
		Path: "s1.yaml", Bridge: "s1", OVSDB: "unix:/tmp/ovs/db.sock", OpenFlow: "unix:/tmp/ovs/s1.mgmt",
		Ports: []SwitchPort{
			{"up0", 8e6, policy.Policy{Weight: 1, Discipline: discipline.LLQ, AQM: discipline.AQM{Target: 10e6, Interval: 200e6}, Queues: []policy.Queue{
				{Name: "voice", Rate: policy.Amount{Rate: 1e6}, DSCP: new(uint8(46)), Match: number(0)},
				{Name: "rest", Min: policy.Amount{Percent: 50}, LimitPackets: 100, Match: number(1)},
			}}},
			// A queue has one number on all ports: voice is 0 here too.
			{"up1", 1e9, policy.Policy{Weight: 1, Discipline: discipline.PQ, AQM: discipline.AQM{Off: true}, Queues: []policy.Queue{
				{Name: "best", Match: number(2)}, {Name: "voice", Match: number(0)},
			}}},
		},
		Flows: []SwitchFlow{
			{InPort: "h1", EthDst: "02:00:00:00:00:0a", Match: classify.Match{UDP: []classify.PortRange{{First: 5001, Last: 5001}, {First: 6000, Last: 6010}}},
				Port: "up0", Queue: "voice", Forward: true},
			{Match: classify.Match{Preset: "voip", Src: netip.MustParsePrefix("10.0.0.0/8")}, Queue: "voice"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestSwitchAddresses(t *testing.T) {
	for _, tt := range []struct{ text, openflow, err string }{
		{"bridge: s1", "unix:/run/openvswitch/s1.mgmt", ""},
		{"bridge: s1\novsdb: tcp:[::1]:6640\nopenflow: tcp:10.0.0.1:6653", "tcp:10.0.0.1:6653", ""},
		{"bridge: s1\novsdb: tcp:10.0.0.1:6640", "", "openflow is missing"},
		{"bridge: s1\novsdb: unix:db.sock", "", "write unix:/PATH, tcp:HOST:PORT or ssl:HOST:PORT"},
		{"bridge: s1\novsdb: ssl:10.0.0.1:6640\nopenflow: ssl:10.0.0.1:6653\ntls: {ca: /ca, cert: /c, key: /k}", "ssl:10.0.0.1:6653", ""},
		{"bridge: s1\novsdb: ssl:10.0.0.1:6640\nopenflow: ssl:10.0.0.1:6653", "", "needs a certificate, its key"},
		{"bridge: s1\novsdb: ssl:10.0.0.1:6640\nopenflow: ssl:10.0.0.1:6653\ntls: {ca: /ca}", "", "needs a certificate, its key"},
		{"bridge: s1\ntls: {ca: /ca, cert: /c, key: /k}", "", "no address is ssl:HOST:PORT"},
		{"bridge: ../s1", "", "bridge is missing"},
	} {
		s, err := ParseSwitch("f", []byte(tt.text))
		if tt.err == "" && (err != nil || s.OpenFlow != tt.openflow) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%q: %q, %v", tt.text, s.OpenFlow, err)
		}
	}
	if _, err := LoadSwitch(filepath.Join(t.TempDir(), "s1.yaml")); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("no file: %v", err)
	}
}

// FuzzParseSwitch: the queues and flows of an accepted file fit together.
func FuzzParseSwitch(f *testing.F) {
	files, _ := filepath.Glob("testdata/switch/*.yaml")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		f.Add(text)
	}
	f.Add([]byte("bridge: s1\nports: {up0: {bandwidth: 1M, discipline: pq, queues: {a: {}}}}\nflows: [{match: {udp: 5}, queue: a}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseSwitch("f", text)
		if err != nil {
			return
		}
		for _, p := range s.Ports {
			if _, err := p.Policy.Sharer(p.Bandwidth); err != nil || p.Bandwidth == 0 {
				t.Errorf("port %+v: %v", p, err)
			}
		}
		for _, flow := range s.Flows {
			if _, ok := s.QueueNumber(flow.Queue); !ok {
				t.Errorf("flow %+v has no queue", flow)
			}
		}
	})
}
