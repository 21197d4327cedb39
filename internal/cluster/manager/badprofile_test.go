// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/manager/planning"
	"weir/internal/core/bound"
	"weir/internal/core/wire"
	"weir/internal/test/boundtest"
)

// raw is a message that no honest sender would seal.
type raw struct {
	kind string
	body json.RawMessage
}

func (r raw) Kind() string                 { return r.kind }
func (raw) Check() error                   { return nil }
func (r raw) MarshalJSON() ([]byte, error) { return r.body, nil }

// says has a node publish a message, by the way that those from the bus take.
func (b *bed) says(node string, topic wire.Topic, m wire.Message) {
	b.t.Helper()
	subject := topic.Of(node)
	data, err := wire.Seal(b.keys[node], node, subject, "x", time.Now(), m)
	if err != nil {
		return // larger than the bus takes
	}
	handler := map[wire.Topic]func(context.Context, bus.Delivery) error{wire.Profiles: b.onProfile, wire.Heartbeats: b.onHeartbeat, wire.Reports: b.onReport}[topic]
	if err := handler(b.t.Context(), bus.Delivery{Subject: subject, ID: "x", Data: data}); err != nil {
		b.t.Errorf("%s by %s would come again: %v", m.Kind(), node, err)
	}
}

// profile returns a good profile as JSON, with changes by path, e.g.
// "capacity.cpu_cores".
func profile(node string, changes map[string]any) json.RawMessage {
	container := map[string]any{"id": "1", "name": "web", "engine": "docker", "usage": map[string]any{"cpu_cores": 0.5, "memory_bytes": 1e8, "network_transmit_bps": 1e6}, "policy": map[string]any{}}
	p := map[string]any{"v": 1, "node": node, "time": time.Now(), "sequence": 1, "interval_seconds": 5,
		"capacity":   map[string]any{"cpu_cores": 4, "memory_bytes": 8e9, "network_transmit_bps": 1e8, "network_receive_bps": 1e8, "guaranteed_bps": 1e8},
		"containers": []any{container}}
	for path, value := range changes {
		parts := strings.Split(path, ".")
		at := p
		if parts[0] == "container" {
			at, parts = container, parts[1:]
		}
		for _, part := range parts[:len(parts)-1] {
			at = at[part].(map[string]any)
		}
		at[parts[len(parts)-1]] = value
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return text
}

// TestBadProfileConcernsItsNodeAlone: whatever one node says of itself, the others are
// planned; the node is unknown, and weir nodes says why.
func TestBadProfileConcernsItsNodeAlone(t *testing.T) {
	for name, changes := range map[string]map[string]any{
		"no CPU":                     {"capacity.cpu_cores": 0},
		"negative CPUs":              {"capacity.cpu_cores": -4},
		"more CPUs than there are":   {"capacity.cpu_cores": 1e308},
		"no memory":                  {"capacity.memory_bytes": 0},
		"a rate that overflows":      {"container.usage.network_transmit_bps": 1.7e308},
		"an interval that overflows": {"interval_seconds": 1e300, "container.usage.cpu_cores": 1e10},
		"guarantees without end":     {"capacity.guaranteed_bps": uint64(1<<64 - 1), "container.policy.min_bps": uint64(1<<64 - 1)},
		"memory without end":         {"container.usage.memory_anonymous_bytes": uint64(1<<64 - 1), "container.changed_bytes": uint64(1<<64 - 1)},
		"from the future":            {"time": time.Now().Add(1000 * time.Hour)},
		"a number for a text":        {"containers": 7},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "a", "b", "c")
			b.has["a"] = []string{"mail", "dns", "db"}
			b.dead["c"] = true
			b.pass(time.Second)
			b.mu.Lock()
			b.nodes["c"].History = nil
			b.mu.Unlock()
			b.says("c", wire.Profiles, raw{"profile", profile("c", changes)})
			plan, err := b.Plan(t.Context(), api.PlanRequest{Above: new(0.0)})
			if err != nil {
				t.Fatal(err)
			}
			if list, err := b.Nodes(t.Context()); err != nil || list[2].Trouble == "" || list[0].Trouble != "" {
				t.Errorf("%+v, %v", list, err)
			} else {
				t.Log(list[2].Trouble)
			}
			if fmt.Sprint(plan.Unknown) != "[c]" || len(plan.Nodes) != 2 || len(plan.Moves) == 0 {
				t.Errorf("unknown: %v, %d nodes, %d moves", plan.Unknown, len(plan.Nodes), len(plan.Moves))
			}
		})
	}
	b := newBed(t, "c")
	b.nodes["c"].History = nil
	b.says("c", wire.Profiles, raw{"profile", profile("c", nil)})
	if len(b.nodes["c"].History) != 1 {
		t.Error("the good one is not taken")
	}
}

// FuzzProfile: with whatever Check lets pass, a plan of all nodes is made, and its
// figures are numbers.
func FuzzProfile(f *testing.F) {
	f.Add([]byte(profile("x", nil)), 5.0)
	f.Add([]byte(profile("x", map[string]any{"capacity.cpu_cores": 1e-300, "container.usage.cpu_cores": 1e5})), 1e-300)
	f.Add([]byte(profile("x", map[string]any{"interval_seconds": 86400, "container.usage.network_transmit_bps": 1e15})), 86400.0)
	m := large(f, 2)
	join(f, m, map[string]ed25519.PrivateKey{"x": keyOf(2)})
	for _, text := range boundtest.Texts(bound.Message, `{"containers":`) {
		f.Add([]byte(text), 5.0)
	}
	f.Fuzz(func(t *testing.T, data []byte, interval float64) {
		boundtest.Hold(t, func() {
			var p wire.Profile
			e, err := wire.Open(slices.Concat([]byte(`{"v":2,"body":`), data, []byte("}")))
			if err != nil || json.Unmarshal(e.Body, &p) != nil {
				return
			}
			p.V, p.Node = wire.ProfileVersion, "x"
			if p.Check() != nil || planning.Unusable(&p, wire.Envelope{}, true, time.Now()) != "" {
				return
			}
			older := p
			if older.IntervalSeconds = interval; older.Check() != nil {
				older.IntervalSeconds = 0
			}
			for _, n := range m.nodes {
				n.Heard, n.Got = time.Now(), time.Now()
			}
			m.nodes["x"] = &planning.Node{Beat: wire.Heartbeat{CRIU: "4"}, Heard: time.Now(), Got: time.Now(), History: planning.Remember(planning.Remember(nil, older), p)}
			plan, err := m.Plan(t.Context(), api.PlanRequest{})
			if err != nil || len(plan.Nodes) != 3 {
				t.Errorf("%d nodes, %v", len(plan.Nodes), err)
			}
			if _, err := json.Marshal(plan); err != nil { // NaN and infinity cannot be written
				t.Error(err)
			}
		})
	})
}
