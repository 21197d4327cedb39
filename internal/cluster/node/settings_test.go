// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/core/policy"
)

// everySetting has a value in each field that can be set at run time.
func everySetting() api.PolicyChange {
	var pairs []string
	for _, f := range policy.Fields(policy.OnWorkload) {
		pairs = append(pairs, f.Name, f.Example)
	}
	for _, f := range policy.Fields(policy.OnIngress) {
		pairs = append(pairs, "ingress."+f.Name, f.Example)
	}
	return apitest.Change(pairs...)
}

// shown returns the workload as an agent shows it after a change.
func shown(c api.PolicyChange, origin string) api.Workload {
	w := api.Workload{Policy: api.PolicyOf(c.Apply(policy.Default())), Origin: map[string]string{}}
	for _, name := range c.Given() {
		w.Origin[name] = origin
	}
	return w
}

// TestSettingsAreComplete: whatever weir set can set is taken along, and can be put
// into force piece by piece.
func TestSettingsAreComplete(t *testing.T) {
	want := everySetting()
	if got := atRunTime(shown(want, "set")); text(t, got) != text(t, want.Change) {
		t.Errorf("taken along:\n%s\nset:\n%s", text(t, got), text(t, want))
	}
	var sum policy.Change
	for _, part := range parts(want) {
		sum = sum.Over(part.Change)
	}
	if text(t, sum) != text(t, want.Change) {
		t.Errorf("the parts add up to:\n%s\nof:\n%s", text(t, sum), text(t, want))
	}
	want.AcceptGaps = true
	for _, part := range parts(want) {
		if !part.AcceptGaps {
			t.Errorf("accept_gaps is lost in %s", text(t, part))
		}
	}
	if kept, _ := (&Node{}).accepted(want); !kept.AcceptGaps {
		t.Error("accept_gaps is lost on the target")
	}
	for _, origin := range []string{"label", "config", "found", "default"} {
		if nothing := atRunTime(shown(want, origin)); !nothing.Empty() {
			t.Errorf("of origin %s, but taken along: %s", origin, text(t, nothing))
		}
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
	b.agent.put("web", apitest.Change("max", "1mbit"))
	c.up(2)
	c.seen(1)
	c.moved("web", "b")
	want := text(t, everySetting())
	if !eventually(func() bool { return b.agent.has(t, "web") == want }) {
		t.Errorf("on b it has\n%s\nwant\n%s", b.agent.has(t, "web"), want)
	}

	// What cannot hold there keeps nothing else from holding.
	c.moved("web", "a")
	c.log.Wait(t, "policy was refused", "node=a", "no group has that name")
	back := api.PolicyChange{}
	if err := json.Unmarshal([]byte(a.agent.has(t, "web")), &back); err != nil || back.Gives("group") || !back.Gives("reserve") || back.Ingress == nil {
		t.Errorf("back on a it has %s", a.agent.has(t, "web"))
	}

	// Nothing was set any more: then nothing is.
	a.agent.put("web", api.PolicyChange{})
	b.agent.put("web", apitest.Change("max", "1mbit"))
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
