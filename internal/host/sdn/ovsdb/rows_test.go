// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"strings"
	"testing"
)

// example returns the rows of a switch with a port of Weir's, a port of another program and
// a row whose port is gone.
func example() *tables {
	weir := map[string]string{Owner: "s1/up0"}
	return &tables{
		Bridge:    map[string]bridgeRow{"b2": {"s2", nil}, "b1": {"s1", set[reference]{"p2", "p1"}}},
		Port:      map[string]portRow{"p1": {"eth3", set[reference]{"i1"}, set[reference]{"q1"}}, "p2": {"up0", set[reference]{"i2"}, set[reference]{"q2"}}},
		Interface: map[string]interfaceRow{"i1": {"eth3", ""}, "i2": {"up0", "internal"}},
		QoS: map[string]qosRow{"q1": {Type: "linux-htb"}, "q2": {Type: Noop, ExternalIDs: weir, Queues: map[int]reference{3: "u"}},
			"q3": {ExternalIDs: weir}, "q4": {}},
		Queue: map[string]queueRow{"u": {DSCP: set[int]{46}, ExternalIDs: weir}},
	}
}

func TestAssemble(t *testing.T) {
	s, err := example().assemble()
	if err != nil || len(s.Bridges) != 2 || s.Bridges[0].Name != "s1" || len(s.QoS) != 4 {
		t.Fatalf("%v: %+v", err, s)
	}
	if len(s.Orphans) != 1 || s.Orphans[0].UUID != "q3" {
		t.Errorf("orphans %+v", s.Orphans)
	}
	bridge, err := s.Bridge("s1")
	if err != nil {
		t.Fatal(err)
	}
	up0, err := bridge.Port("up0")
	if device, wrong := up0.Device(); err != nil || wrong != nil || device != "up0" || !up0.QoS.Own() || *up0.QoS.Queues[3].DSCP != 46 {
		t.Errorf("up0 is %+v, %v, %v", up0, err, wrong)
	}
	if bridge.Ports[0].QoS.Own() {
		t.Error("a foreign row is taken for Weir's")
	}
}

// TestDanglingReference: tables that lack a row are not taken for the truth; a port would seem
// to have no queues.
func TestDanglingReference(t *testing.T) {
	for name, lose := range map[string]func(*tables){
		"port":      func(t *tables) { delete(t.Port, "p2") },
		"interface": func(t *tables) { delete(t.Interface, "i2") },
		"qos":       func(t *tables) { delete(t.QoS, "q2") },
		"queue":     func(t *tables) { t.Queue = nil },
	} {
		rows := example()
		lose(rows)
		if _, err := rows.assemble(); err == nil {
			t.Errorf("without a row of %s it is taken for whole", name)
		}
	}
}

func TestSame(t *testing.T) {
	s, _ := example().assemble()
	q := s.QoS["q2"]
	other := *q
	other.UUID = "elsewhere"
	if !q.Same(&other) || q.Same(s.QoS["q1"]) || q.Same(nil) || !(*QoS)(nil).Same(nil) {
		t.Error("rows are not compared by what they say")
	}
	other.Queues = map[int]Queue{3: {ExternalIDs: q.Queues[3].ExternalIDs}}
	if q.Same(&other) {
		t.Error("a queue without its dscp is the same")
	}
}

func TestWhatIsThere(t *testing.T) {
	bridge := Bridge{Name: "s1"}
	for _, tt := range []struct{ ports, asked, want string }{
		{"", "up0", "there is none; add one with ovs-vsctl"},
		{"eth7", "up0", "its only port is eth7"},
		{"eth7 wan", "vm", "its ports are eth7, wan"},
		{"up0 eth7", "pu0", "did you mean up0?"},
		{"a1 a2 a3 a4 a5 a6 a7 a8 a9", "uplink", "it has 9 ports, such as a1, a2, a3, a4, a5, a6, a7, a8"},
	} {
		bridge.Ports = nil
		for _, name := range strings.Fields(tt.ports) {
			bridge.Ports = append(bridge.Ports, Port{Name: name})
		}
		want := `port "` + tt.asked + `": bridge s1 has no such port; ` + tt.want
		if _, err := bridge.Port(tt.asked); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if _, err := (Port{Bridge: "s1", Name: "bond0", Interfaces: make([]Interface, 2)}).Device(); err == nil || !strings.Contains(err.Error(), "a bond of 2 devices") {
		t.Errorf("a bond: %v", err)
	}
}
