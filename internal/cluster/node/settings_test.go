// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"reflect"
	"testing"

	"weir/internal/api"
)

// everySetting has a value in each field that can be set at run time.
func everySetting() api.PolicyChange {
	c := api.PolicyChange{
		Weight: new(uint32(7)), Min: new("5mbit"), Max: new("50mbit"), Reserve: new("4mbit"), LimitPackets: new(uint32(100)), LimitBytes: new(uint64(1e6)),
		Discipline: new("pq"), Queues: new([]api.Queue{{Name: "voice", Reserve: "1mbit"}, {Name: "rest"}}), AQM: new("5ms/100ms"), DSCP: new("ef"), Group: new("tenant-b"),
	}
	in := c
	in.Group, in.Weight = nil, new(uint32(3))
	c.Ingress = &in
	return c
}

// asPolicy is how an agent shows what was set.
func asPolicy(t *testing.T, c api.PolicyChange, prefix string, origin map[string]string) (p api.Policy) {
	t.Helper()
	c.Ingress = nil
	text, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	fields := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	for field := range fields {
		origin[prefix+field] = "set"
	}
	return p
}

// TestSettingsAreComplete: whatever weir set can set is taken along, and can be put
// into force piece by piece.
func TestSettingsAreComplete(t *testing.T) {
	want := everySetting()
	value := reflect.ValueOf(want)
	for i := range value.NumField() {
		switch name := value.Type().Field(i).Name; {
		case name == "Reset" || name == "ReserveQueue" || name == "AcceptGaps": // orders, and a way to say what Queues has
		case value.Field(i).IsZero():
			t.Fatalf("the test does not know the field %s", name)
		}
	}
	origin := map[string]string{}
	p, in := asPolicy(t, want, "", origin), asPolicy(t, *want.Ingress, "ingress.", origin)
	got := settings(p, origin, "")
	got.Ingress = new(settings(in, origin, "ingress."))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("taken along:\n%s\nset:\n%s", text(t, got), text(t, want))
	}
	var sum api.PolicyChange
	for _, part := range parts(want) {
		if err := json.Unmarshal([]byte(text(t, part)), &sum); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(sum, want) {
		t.Errorf("the parts add up to:\n%s\nof:\n%s", text(t, sum), text(t, want))
	}
	want.AcceptGaps = true
	for _, part := range parts(want) {
		if !part.AcceptGaps {
			t.Errorf("accept_gaps is lost in %s", text(t, part))
		}
	}
	if kept, _ := (&Node{}).acceptedFields(want, ""); !kept.AcceptGaps {
		t.Error("accept_gaps is lost on the target")
	}
	if nothing := settings(p, map[string]string{"weight": "label", "min": "config", "group": "found"}, ""); !nothing.Empty() {
		t.Errorf("not set at run time: %s", text(t, nothing))
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	list, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(list)
}

// TestSettingsFollow: a container is on its next node what weir set has made of it,
// and nothing that it was there before.
func TestSettingsFollow(t *testing.T) {
	c := newCluster(t)
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.world.put("a", "web")
	b.agent.groups = []string{"tenant-b"}
	a.agent.put("web", everySetting())
	b.agent.put("web", api.PolicyChange{Max: new("1mbit")})
	c.up(2)
	c.seen(1)
	c.moved("web", "b")
	want := text(t, api.PolicyChange{Weight: new(uint32(7)), Min: new("5mbit"), Max: new("50mbit"), Reserve: new("4mbit"), Discipline: new("pq"),
		Queues: everySetting().Queues, Group: new("tenant-b"), Ingress: &api.PolicyChange{Weight: new(uint32(3)), Min: new("5mbit"),
			Max: new("50mbit"), Reserve: new("4mbit"), Discipline: new("pq"), Queues: everySetting().Queues}}) // what the double of an agent knows
	if !eventually(func() bool { return b.agent.has(t, "web") == want }) {
		t.Errorf("on b it has\n%s\nwant\n%s", b.agent.has(t, "web"), want)
	}

	// What cannot hold there keeps nothing else from holding.
	c.moved("web", "a")
	c.log.Wait(t, "policy was refused", "node=a", "no group has that name")
	back := api.PolicyChange{}
	if err := json.Unmarshal([]byte(a.agent.has(t, "web")), &back); err != nil || back.Group != nil || back.Reserve == nil || back.Ingress == nil {
		t.Errorf("back on a it has %s", a.agent.has(t, "web"))
	}

	// Nothing was set any more: then nothing is.
	a.agent.put("web", api.PolicyChange{})
	b.agent.put("web", api.PolicyChange{Max: new("1mbit")})
	c.moved("web", "b")
	if !eventually(func() bool { return b.agent.has(t, "web") == "{}" }) {
		t.Errorf("on b it has %s of another life", b.agent.has(t, "web"))
	}
}

// has is what was set for a container here.
func (a *fakeAgent) has(t *testing.T, name string) string {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	return text(t, a.set[name])
}

// put has it set before anybody asks.
func (a *fakeAgent) put(name string, c api.PolicyChange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set[name] = c
}

// moved moves a container to its end.
func (c *cluster) moved(container, to string) {
	c.t.Helper()
	eventually(func() bool { // the last profiles may be of before the last move
		list, err := c.manager.Containers(c.t.Context())
		return err == nil && len(list) == 1 && list[0].Node != to
	})
	mv, err := c.manager.Migrate(c.t.Context(), api.MoveRequest{Container: container, To: to}, false)
	if err != nil {
		c.t.Fatal(err)
	}
	if mv = c.ended(mv.ID); mv.State != "done" {
		c.t.Fatalf("%+v", mv)
	}
}
