// SPDX-License-Identifier: Apache-2.0

package sdn

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/config"
	"weir/internal/core/policy/classify"
	"weir/internal/host/sdn/openflow"
	"weir/internal/host/sdn/ovsdb"
)

// TestMasks: the blocks cover the range once and nothing else, and there are few.
func TestMasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint16().Draw(t, "first")
		last := rapid.Uint16Range(first, 65535).Draw(t, "last")
		list := masks(classify.PortRange{First: first, Last: last})
		if len(list) > 30 {
			t.Errorf("%d blocks", len(list))
		}
		for port := range 1 << 16 {
			in := 0
			for _, m := range list {
				if uint16(port)&m.mask == m.value {
					in++
				}
			}
			want := 0
			if uint16(port) >= first && uint16(port) <= last {
				want = 1
			}
			if in != want {
				t.Fatalf("port %d is in %d blocks of %v", port, in, list)
			}
		}
	})
	if got := fmt.Sprint(masks(classify.PortRange{First: 5000, Last: 5010})); got != "[{5000 65528} {5008 65534} {5010 65535}]" {
		t.Errorf("5000-5010 is %s", got)
	}
	if got := len(masks(classify.PortRange{First: 0, Last: 65535})); got != 1 {
		t.Errorf("all ports are %d blocks", got)
	}
}

var testPorts = map[string]uint32{"h1": 1, "h2": 2, "up0": 9}

func parse(t *testing.T, flows string) config.Switch {
	t.Helper()
	s, err := config.ParseSwitch("s1.yaml", []byte(`
bridge: s1
ports:
  up0: {bandwidth: 8mbit, discipline: cbwfq, queues: {a: {}, b: {}}}
flows:
`+flows))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCompileFlows(t *testing.T) {
	for _, tt := range []struct{ name, flows, want string }{
		{"a port of either end, both families", "- {match: {tcp: 80}, queue: b}", `
60000 tcp,tcp_src=80 queue 1
60000 tcp,tcp_dst=80 queue 1
60000 tcp6,tcp_src=80 queue 1
60000 tcp6,tcp_dst=80 queue 1`},
		{"a prefix has one family", "- {match: {src: 10.0.0.0/8, dst: 10.0.0.1, dscp: ef}, queue: a}", `
60000 ip,ip_dscp=46,nw_src=10.0.0.0/8,nw_dst=10.0.0.1 queue 0`},
		{"ports of any protocol that has some", "- {match: {src: fd00::/64, sport: 1000-1001, dport: 53}, queue: a}", `
60000 tcp6,tcp_src=1000/0xfffe,tcp_dst=53,ipv6_src=fd00::/64 queue 0
60000 udp6,udp_src=1000/0xfffe,udp_dst=53,ipv6_src=fd00::/64 queue 0
60000 sctp6,sctp_src=1000/0xfffe,sctp_dst=53,ipv6_src=fd00::/64 queue 0`},
		{"ICMP of each family", "- {match: {proto: icmp}, queue: a}\n- {match: {proto: icmp6}, queue: a}", `
60000 ip,nw_proto=1 queue 0
60000 ipv6,nw_proto=58 queue 0`},
		{"nothing of IP", "- {match: {in_port: h2, dl_src: \"02:00:00:00:00:01\", vlan: 7}, queue: a}", `
60000 in_port=2,dl_src=02:00:00:00:00:01,vlan_tci=0x1007 queue 0`},
		{"the first counts where two overlap and differ", `
- {match: {src: 10.0.0.0/24}, queue: a}
- {match: {src: 10.0.0.0/8}, queue: b}
- {match: {src: 11.0.0.0/8}, queue: b}
- {match: {in_port: h1}, queue: b}
- {match: {in_port: h2, src: 0.0.0.0/0}, queue: a}`, `
60000 ip,nw_src=10.0.0.0/24 queue 0
59999 ip,nw_src=10.0.0.0/8 queue 1
60000 ip,nw_src=11.0.0.0/8 queue 1
59999 in_port=1 queue 1
59998 in_port=2,ip queue 0`},
		{"forwarded", "- {match: {in_port: h1}, port: up0, queue: b, forward: true}", `
60000 in_port=1 queue 1, output:9`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			flows, err := compileFlows(parse(t, tt.flows), testPorts)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			for _, f := range flows {
				n, _ := queueOf(f)
				fmt.Fprintf(&b, "\n%d %s queue %d", f.Priority, matchText(f), n)
				switch text := f.ActionText(); {
				case strings.HasSuffix(text, ",set_field:1->reg15,resubmit(,0)"):
				default:
					_, rest, _ := strings.Cut(text, ",")
					b.WriteString(", " + rest)
				}
			}
			if b.String() != tt.want {
				t.Errorf("got %s\nwant %s", b.String(), tt.want)
			}
		})
	}
}

func TestCompileFlowsRefuses(t *testing.T) {
	for _, tt := range []struct{ flows, want string }{
		{"- {match: {udp: 1-10}, queue: a}\n- {match: {udp: 5}, queue: b}",
			"s1.yaml: flows[1]: no packet gets here, flows[0] takes them before; remove it, or put it first"},
		{"- {match: {in_port: h9}, queue: a}", `s1.yaml: flows[0]: port "h9": bridge s1 has no such port, or it is not up yet; see ovs-ofctl show s1`},
		{"- {match: {proto: 33, dport: 5}, queue: a}", "s1.yaml: flows[0]: OpenFlow has no fields for the ports of protocol 33; leave the ports out"},
	} {
		if _, err := compileFlows(parse(t, tt.flows), testPorts); err == nil || err.Error() != tt.want {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
	}
}

// TestPlan: the present flows decide the changes; flows of other programs are left out.
func TestPlan(t *testing.T) {
	s := parse(t, "- {match: {tcp: 80}, queue: b}")
	bridge := func(qos *ovsdb.QoS) ovsdb.Content {
		up0 := ovsdb.Port{UUID: "p", Bridge: "s1", Name: "up0", Interfaces: []ovsdb.Interface{{Name: "up0"}}, QoS: qos}
		return ovsdb.Content{Bridges: []ovsdb.Bridge{{Name: "s1", Ports: []ovsdb.Port{up0}}}}
	}
	first, err := planApply(s, state{snapshot: bridge(nil), ports: testPorts}, false)
	if err != nil || strings.Join(first.changes, "; ") != "port up0: cbwfq at 8 Mbit/s, a, b; flows: 4 added" {
		t.Fatalf("%q, %v", first.changes, err)
	}
	var flows []openflow.Flow
	for _, m := range first.flows {
		flows = append(flows, m.Flow)
	}
	row := first.rows[0].Want
	again, err := planApply(s, state{snapshot: bridge(row), ports: testPorts, flows: flows}, false)
	if err != nil || len(again.changes)+len(again.rows)+len(again.flows) != 0 {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	less := planDelete("s1", state{snapshot: bridge(row), flows: flows})
	if got := strings.Join(less.changes, "; "); got != "port up0: no more cbwfq at 8 Mbit/s, a, b; flows: 4 removed" {
		t.Errorf("deleted: %s", got)
	}
	foreign := planDelete("s1", state{snapshot: bridge(&ovsdb.QoS{UUID: "q", Type: "linux-htb"})})
	if len(foreign.changes)+len(foreign.rows) != 0 {
		t.Errorf("a foreign row: %+v", foreign)
	}
	gone := ovsdb.Content{Orphans: []ovsdb.QoS{{UUID: "q", ExternalIDs: map[string]string{ovsdb.Owner: "s1/up7"}}, {UUID: "r", ExternalIDs: map[string]string{ovsdb.Owner: "s10/up0"}}}}
	if p := planDelete("s1", state{snapshot: gone}); len(p.orphans) != 1 || p.orphans[0].UUID != "q" {
		t.Errorf("rows of ports that are gone: %+v", p)
	}
}

// TestView: names of ports, foreign rows, and what all flows of a queue have seen.
func TestView(t *testing.T) {
	s := parse(t, "- {match: {in_port: h1, udp: 5}, port: up0, queue: b, forward: true}")
	flows, err := compileFlows(s, testPorts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range flows {
		flows[i].Packets, flows[i].Bytes = 10, 1000
	}
	rows, err := wantedRows(s, ovsdb.Bridge{Name: "s1", Ports: []ovsdb.Port{{Name: "up0", Interfaces: []ovsdb.Interface{{Name: "up0"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	b := view(ovsdb.Bridge{Name: "s1", Ports: []ovsdb.Port{
		{Name: "eth3", QoS: &ovsdb.QoS{Type: "linux-htb"}}, {Name: "h1"},
		{Name: "up0", Interfaces: []ovsdb.Interface{{Name: "up0"}}, QoS: rows["up0"]},
	}}, flows, testPorts)
	if len(b.Ports) != 2 || b.Ports[0].Foreign != "linux-htb" || len(b.Flows) != 4 {
		t.Fatalf("%+v", b)
	}
	if q := b.Ports[1].Queues; len(q) != 2 || q[0].Flows != 0 || q[1].Flows != 4 || q[1].Packets != 40 || q[1].Bytes != 4000 {
		t.Errorf("queues %+v", b.Ports[1].Queues)
	}
	if f := b.Flows[0]; f.Match != "in_port=h1,udp,udp_src=5" || f.Actions != "set_queue:1,output:up0" {
		t.Errorf("flow %+v", f)
	}
}
