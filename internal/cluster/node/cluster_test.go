// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/cluster/move"
	"weir/internal/core/refusal"
)

// seen waits until the manager knows of so many containers.
func (c *cluster) seen(many int) {
	c.t.Helper()
	if !eventually(func() bool { list, _ := c.manager.Containers(c.t.Context()); return len(list) == many }) {
		list, _ := c.manager.Containers(c.t.Context())
		c.t.Fatalf("not %d containers: %+v", many, list)
	}
}

func TestMigrate(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 100e6)
	b := c.node("b", 100e6)
	c.world.put("a", "web")
	a.agent.set["web"] = apitest.Change("weight", "7")
	c.up(2)
	c.seen(1)
	dry, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, true)
	if err != nil || dry.State != "done" {
		t.Fatalf("%+v, %v", dry, err)
	}
	c.only("web", "a")
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	mv = c.ended(mv.ID)
	if mv.State != "done" || mv.Bytes == 0 || len(mv.Steps) < 4 {
		t.Errorf("%+v", mv)
	}
	c.only("web", "b")
	if !eventually(func() bool {
		w, err := b.agent.Workload(t.Context(), "web")
		return err == nil && w.Policy.Weight == 7
	}) {
		t.Error("what was set at run time has not followed")
	}
}

func TestMigrateRefused(t *testing.T) {
	c := newCluster(t)
	c.node("a", 100e6)
	c.node("b", 10e6)
	c.world.put("a", "web")
	c.up(2)
	c.seen(1)
	for _, r := range []struct {
		container, to string
		kind          refusal.Kind
		words         []string
	}{
		{"wbe", "b", refusal.Unknown, []string{"container", "did you mean web?"}},
		{"web", "nowhere", refusal.Unknown, []string{"to", "no node has this name", "weir nodes"}},
		{"web", "a", refusal.Conflict, []string{"is on a already"}},
		{"b/web", "b", refusal.Unknown, []string{"no container"}},
	} {
		_, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: r.container, To: r.to}, false)
		refusedAs(t, err, r.kind, r.words...)
	}
	moves, _ := c.manager.Moves(t.Context())
	if len(moves) != 0 {
		t.Errorf("something was ordered: %+v", moves)
	}
}

func TestNoRoom(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 100e6)
	c.node("b", 10e6)
	c.world.put("a", "web")
	a.agent.reserve("web", 20e6)
	c.up(2)
	c.seen(1)
	_, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	refusedAs(t, err, refusal.NoRoom, "b lacks 10 Mbit/s of guaranteed bandwidth")
}

// TestPreflightRefuses: what the nodes find is told, and nothing is touched.
func TestPreflightRefuses(t *testing.T) {
	c := newCluster(t)
	c.node("a", 100e6)
	c.node("b", 100e6)
	c.world.put("a", "web")
	c.up(2)
	c.seen(1)
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b", Approach: "archive"}, true)
	if err != nil {
		t.Fatal(err)
	}
	if mv.State != "refused" || mv.Error == "" || strings.Contains(mv.Error, "\n") {
		t.Errorf("%+v", mv)
	}
	c.only("web", "a")
}

func TestRolledBack(t *testing.T) {
	c := newCluster(t)
	c.node("a", 100e6)
	c.node("b", 100e6)
	c.world.put("a", "web")
	c.world.fail[move.Restore] = &move.Error{Code: move.CodeFailed, Msg: "CRIU does not want to"}
	c.up(2)
	c.seen(1)
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if mv = c.ended(mv.ID); mv.State != "rolled-back" || !strings.Contains(mv.Error, "CRIU does not want to") {
		t.Errorf("%+v", mv)
	}
	c.only("web", "a")
}

// TestTargetIsTidiedLater: the container goes on although the target cannot be told to
// remove its half copy; that is done when it can.
func TestTargetIsTidiedLater(t *testing.T) {
	c := newCluster(t)
	c.node("a", 100e6)
	c.node("b", 100e6)
	c.world.put("a", "web")
	c.world.fail[move.Freeze] = &move.Error{Code: move.CodeFailed, Msg: "CRIU does not want to"}
	c.world.fail[move.Discard] = errors.New("no answer")
	c.up(2)
	c.seen(1)
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if mv = c.ended(mv.ID); mv.State != "rolled-back" {
		t.Errorf("%+v", mv)
	}
	copies := func() int {
		c.world.mu.Lock()
		defer c.world.mu.Unlock()
		return len(c.world.copy)
	}
	if copies() != 1 {
		t.Fatalf("%d copies on b, want the one that could not be removed", copies())
	}
	c.world.mu.Lock()
	delete(c.world.fail, move.Discard)
	c.world.mu.Unlock()
	if !eventually(func() bool { return copies() == 0 }) {
		t.Error("the half copy stays on b")
	}
	c.only("web", "a")
}

// TestManagerRestarts in the middle of a migration: it goes on without, and the
// manager that comes back learns what became of it.
func TestManagerRestarts(t *testing.T) {
	c := newCluster(t)
	c.node("a", 100e6)
	c.node("b", 100e6)
	c.world.put("a", "web")
	gate := make(chan struct{})
	c.world.slow[move.Freeze] = gate
	c.up(2)
	c.seen(1)
	token, err := c.manager.NewToken(t.Context(), api.TokenRequest{Node: "later"})
	if err != nil {
		t.Fatal(err)
	}
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	c.inStep(mv.ID, string(move.Freeze))
	c.stop()
	close(gate)
	if !eventually(func() bool { at := c.world.where("web"); return len(at) == 1 && at[0] == "b" }) {
		t.Fatal("the move does not go on without a manager")
	}
	c.start()
	if mv = c.ended(mv.ID); mv.State != "done" {
		t.Errorf("%+v", mv)
	}
	c.up(2)
	if list, err := c.manager.Tokens(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("tokens %+v, %v", list, err)
	}
	o := c.options("later")
	o.Token, o.Log = token.Token, slog.New(slog.DiscardHandler)
	if _, err := enroll(t.Context(), o); err != nil {
		t.Errorf("a token of before does not count: %v", err)
	}
}

// TestNodeRestarts in the middle of a migration: the next process settles it.
func TestNodeRestarts(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 100e6)
	c.node("b", 100e6)
	c.world.put("a", "web")
	gate := make(chan struct{})
	c.world.slow[move.Restore] = gate
	c.up(2)
	c.seen(1)
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { at := c.world.where("web"); return len(at) == 0 }) {
		t.Fatal("web is not frozen")
	}
	a.stop()
	close(gate)
	c.world.mu.Lock()
	delete(c.world.slow, move.Restore)
	c.world.mu.Unlock()
	c.run(a.opts, a.agent)
	if mv = c.ended(mv.ID); mv.State != "rolled-back" && mv.State != "done" {
		t.Errorf("%+v", mv)
	}
	c.only("web", map[string]string{"rolled-back": "a", "done": "b"}[string(mv.State)])
}

// TestCutOff: an order that is given while its node is away is carried out when it is
// back, and one that is too old is not.
func TestCutOff(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 100e6)
	c.node("b", 100e6)
	c.world.put("a", "web")
	c.up(2)
	c.seen(1)
	a.stop()
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	c.only("web", "a")
	c.run(a.opts, a.agent)
	if mv = c.ended(mv.ID); mv.State != "done" {
		t.Errorf("%+v", mv)
	}
	c.only("web", "b")
}

func TestRefusedMinMoves(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 100e6)
	b := c.node("b", 100e6)
	for _, name := range []string{"web", "db"} {
		c.world.put("a", name)
	}
	a.agent.reserve("db", 90e6)
	c.up(2)
	c.seen(2)
	agent := a.WithManager(a.agent)
	result, err := agent.Set(t.Context(), "web", apitest.Change("min", "20mbit", "weight", "3"), false)
	if err != nil {
		t.Fatal(err)
	}
	if text := result.Changes[0].What; !strings.Contains(text, "asked the manager: moving web to b") {
		t.Errorf("told %q", text)
	}
	again, err := agent.Set(t.Context(), "web", apitest.Change("min", "20mbit"), false)
	if err != nil || again.Changes[0].What != result.Changes[0].What {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	if !eventually(func() bool {
		b.agent.mu.Lock()
		defer b.agent.mu.Unlock()
		return b.agent.min["web"] == 20e6 && b.agent.set["web"].To().Weight == 3
	}) {
		t.Fatalf("the min does not hold on b\n%s", c.log)
	}
	c.only("web", "b")
	moves, _ := c.manager.Moves(t.Context())
	if len(moves) != 1 || !eventually(func() bool {
		moves, _ = c.manager.Moves(t.Context())
		return strings.Contains(moves[0].Guarantee, "min of 20 Mbit/s for web holds on b")
	}) {
		t.Errorf("%+v", moves)
	}
}

// TestRefusedShareMoves: a part of a link is asked for, and applied, as the rate that it is
// where it was refused.
func TestRefusedShareMoves(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 100e6)
	b := c.node("b", 400e6)
	for _, name := range []string{"web", "db"} {
		c.world.put("a", name)
	}
	a.agent.reserve("db", 90e6)
	c.up(2)
	c.seen(2)
	if _, err := a.WithManager(a.agent).Set(t.Context(), "web", apitest.Change("min", "20%"), false); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool {
		b.agent.mu.Lock()
		defer b.agent.mu.Unlock()
		return b.agent.set["web"].Gives("min")
	}) {
		t.Fatalf("no min is set on b\n%s", c.log)
	}
	if min := b.agent.set["web"].To().Min.Compact(); min != "20mbit" {
		t.Errorf("min of %s on b, want 20mbit", min)
	}
}

func TestRefusedMinHasNoPlace(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 100e6)
	c.node("b", 15e6)
	c.world.put("a", "web")
	c.world.put("a", "db")
	a.agent.reserve("db", 90e6)
	c.up(2)
	c.seen(2)
	_, err := a.WithManager(a.agent).Set(t.Context(), "web", apitest.Change("min", "20mbit"), false)
	refusedAs(t, err, refusal.NoRoom, "min", "has no room", "b lacks 5 Mbit/s of guaranteed bandwidth", "a lacks 10 Mbit/s")
	if moves, _ := c.manager.Moves(t.Context()); len(moves) != 0 {
		t.Errorf("%+v", moves)
	}
}

func TestRebalance(t *testing.T) {
	c := newCluster(t)
	c.node("a", 100e6)
	c.node("b", 100e6)
	for i := range 4 {
		c.world.put("a", fmt.Sprintf("c%d", i))
	}
	c.up(2)
	c.seen(4)
	plan, err := c.manager.Plan(t.Context(), api.PlanRequest{})
	if err != nil || len(plan.Moves) != 2 || plan.Applied || plan.After.S >= plan.Before.S {
		t.Fatalf("%+v, %v", plan, err)
	}
	if moves, _ := c.manager.Moves(t.Context()); len(moves) != 0 {
		t.Errorf("a plan has moved something: %+v", moves)
	}
	plan, err = c.manager.Rebalance(t.Context(), api.PlanRequest{})
	if err != nil || !plan.Applied {
		t.Fatalf("%+v, %v", plan, err)
	}
	for _, m := range plan.Moves {
		if mv := c.ended(m.ID); mv.State != "done" {
			t.Errorf("%+v", mv)
		}
	}
	for i := range 4 {
		if at := c.world.where(fmt.Sprintf("c%d", i)); len(at) != 1 {
			t.Errorf("c%d runs on %v", i, at)
		}
	}
	if !eventually(func() bool {
		plan, err = c.manager.Plan(t.Context(), api.PlanRequest{})
		return err == nil && len(plan.Moves) == 0
	}) {
		t.Errorf("it is not even now: %+v, %v", plan, err)
	}
}

// TestAutomatic: the manager evens the cluster out by itself, not more at once than it
// may, and says what it does.
func TestAutomatic(t *testing.T) {
	c := newCluster(t)
	c.stop()
	c.opts.Automatic.Enabled, c.opts.Automatic.Interval, c.opts.Automatic.AtOnce, c.opts.Automatic.PerHour = true, 200*time.Millisecond, 1, 2
	c.start()
	c.node("a", 100e6)
	c.node("b", 100e6)
	for i := range 8 {
		c.world.put("a", fmt.Sprintf("c%d", i))
	}
	c.up(2)
	if !eventually(func() bool {
		st, _ := c.manager.Cluster(t.Context())
		return strings.Contains(st.Automatic.LastResult, "2 moves within the last hour, 2 are allowed")
	}) {
		st, _ := c.manager.Cluster(t.Context())
		t.Errorf("%+v", st.Automatic)
	}
	moves, _ := c.manager.Moves(t.Context())
	if len(moves) != 2 {
		t.Errorf("%d moves", len(moves))
	}
}

func TestManagerAway(t *testing.T) {
	c := newCluster(t)
	c.stop()
	o := c.options("a")
	o.Log = slog.New(slog.DiscardHandler)
	_, err := enroll(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "cannot be reached at "+o.Manager) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}
