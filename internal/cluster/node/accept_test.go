// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/cluster/migrate"
	"weir/internal/core/refusal"
)

// planned returns the moves of a plan as "CONTAINER FROM TO".
func (c *cluster) planned() (list []string, plan api.ClusterPlan) {
	c.t.Helper()
	plan, err := c.manager.Plan(c.t.Context(), api.PlanRequest{Above: new(0.0)})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, mv := range plan.Moves {
		list = append(list, mv.Container+" "+mv.From+" "+mv.To)
	}
	return list, plan
}

// to reports whether one of the moves goes to a node.
func to(list []string, node string) bool {
	return slices.ContainsFunc(list, func(mv string) bool { return strings.HasSuffix(mv, " "+node) })
}

// TestPlansKnowWhoAcceptsWhom: what a node does not accept is not planned for it, not
// sought a place there, and refused at once where an operator orders it. weir plan says so.
func TestPlansKnowWhoAcceptsWhom(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 100e6)
	o := c.options("b")
	o.AcceptFrom = []string{"x"}
	c.run(o, newAgent(c.world, "b", 100e6))
	c.node("x", 10e6)
	for i := range 4 {
		c.world.put("a", fmt.Sprint("web", i))
	}
	a.agent.reserve("web0", 90e6)
	c.up(3)
	c.seen(4)
	moves, plan := c.planned()
	if to(moves, "b") || !to(moves, "x") {
		t.Errorf("planned %q, want moves to x alone", moves)
	}
	if want := []string{"b does not accept containers of a (cluster.accept_from)"}; !slices.Equal(plan.Refusals, want) {
		t.Errorf("refusals %q, want %q", plan.Refusals, want)
	}
	_, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web1", To: "b"}, false)
	refusedAs(t, err, refusal.Conflict, "b does not accept containers of a", "cluster.accept_from")
	_, err = a.WithManager(a.agent).Set(t.Context(), "web1", apitest.Change("min", "20mbit"), false)
	refusedAs(t, err, refusal.NoRoom, "b does not accept containers of a", "x lacks 10 Mbit/s")
}

// TestRefusalsAreRemembered: a container that its target refused is not planned for that
// target again until the container or the target is another, or the operator has it tried.
func TestRefusalsAreRemembered(t *testing.T) {
	c := newCluster(t)
	c.node("a", 100e6)
	b := c.node("b", 100e6)
	c.world.put("a", "web")
	c.world.put("a", "db")
	c.world.mu.Lock()
	c.world.lack = map[string][]migrate.PreflightFinding{"web": {{Code: "not-accepted", Refuses: true, Node: "b", Msg: "CapAdd is NET_ADMIN, which this node does not accept from others"}},
		"db": {{Code: "disk", Refuses: true, Node: "b", Msg: "no room"}}}
	c.world.mu.Unlock()
	c.up(2)
	c.seen(2)
	if moves, _ := c.planned(); !to(moves, "b") {
		t.Fatalf("planned %q before anything was refused", moves)
	}
	for _, name := range []string{"web", "db"} {
		mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: name, To: "b"}, false)
		if err != nil {
			t.Fatal(err)
		}
		if end := c.ended(mv.ID); end.State != "refused" {
			t.Fatalf("%+v", end)
		}
	}
	moves, plan := c.planned()
	if want := []string{"db a b"}; !slices.Equal(moves, want) {
		t.Errorf("planned %q, want %q: a full disk is no rule", moves, want)
	}
	if len(plan.Refusals) != 1 || !strings.HasPrefix(plan.Refusals[0], "b does not accept web of a: ") || !strings.Contains(plan.Refusals[0], "CapAdd is NET_ADMIN") {
		t.Errorf("refusals %q", plan.Refusals)
	}
	if mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, true); err != nil || mv.State != "refused" {
		t.Errorf("the operator's: %+v, %v", mv, err)
	}
	c.world.mu.Lock()
	c.world.lack = nil
	c.world.mu.Unlock()
	b.stop()
	c.run(b.opts, b.agent)
	if !eventually(func() bool { moves, plan = c.planned(); return len(plan.Refusals) == 0 && len(moves) == 1 }) {
		t.Errorf("after b's agent began anew: %q, %q", moves, plan.Refusals)
	}
}
