// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/move"
	"weir/internal/core/refusal"
)

// TestCancelAtEachStep: a move that is cancelled at whichever step ends where the
// container is, and it runs there only; after the decision it is too late.
func TestCancelAtEachStep(t *testing.T) {
	for _, at := range []move.Step{move.PullImage, move.Create, move.Freeze, move.Restore, move.Confirm, move.Forget} {
		t.Run(string(at), func(t *testing.T) {
			c := newCluster(t)
			c.node("a", 100e6)
			c.node("b", 100e6)
			c.world.put("a", "web")
			c.up(2)
			c.seen(1)
			gate := make(chan struct{})
			c.world.mu.Lock()
			c.world.slow[at] = gate
			c.world.mu.Unlock()
			mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
			if err != nil {
				t.Fatal(err)
			}
			c.inStep(mv.ID, string(at))
			if at == move.Confirm || at == move.Forget {
				c.tooLate(mv.ID)
				close(gate)
				if end := c.ended(mv.ID); end.State != "done" {
					t.Errorf("%+v", end)
				}
				c.only("web", "b")
				return
			}
			done, err := c.manager.CancelMove(t.Context(), mv.ID, false)
			if err != nil || done.Effect != "asked" {
				t.Fatalf("%+v, %v", done, err)
			}
			end := c.ended(mv.ID)
			if end.State != "rolled-back" || !strings.Contains(end.Error, "cancelled: by the operator") {
				t.Errorf("%+v", end)
			}
			close(gate)
			c.only("web", "a")
		})
	}
}

// inStep waits until a move is in a step.
func (c *cluster) inStep(id, step string) {
	c.t.Helper()
	if !eventually(func() bool {
		mv, err := c.manager.Move(c.t.Context(), id)
		return err == nil && mv.Step == step
	}) {
		mv, _ := c.manager.Move(c.t.Context(), id)
		c.t.Fatalf("%+v is not in step %s", mv, step)
	}
}

// tooLate cancels a move and waits for the answer that this is not possible.
func (c *cluster) tooLate(id string) {
	c.t.Helper()
	if done, err := c.manager.CancelMove(c.t.Context(), id, false); err != nil || done.Effect != "asked" {
		c.t.Fatalf("%+v, %v", done, err)
	}
	if !eventually(func() bool {
		mv, err := c.manager.Move(c.t.Context(), id)
		return err == nil && strings.Contains(mv.Cancel, "too late")
	}) {
		c.t.Error("the source does not say that it is too late")
	}
	_, err := c.manager.CancelMove(c.t.Context(), id, false)
	refusedAs(c.t, err, refusal.Conflict, "too late", "wait for its end")
}

// TestCancelBeforeTheOrder: a cancellation that overtakes its order keeps it from being
// obeyed.
func TestCancelBeforeTheOrder(t *testing.T) {
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
	if _, err := c.manager.CancelMove(t.Context(), mv.ID, false); err != nil {
		t.Fatal(err)
	}
	c.run(a.opts, a.agent)
	end := c.ended(mv.ID)
	time.Sleep(200 * time.Millisecond)
	if end.State == "done" {
		t.Errorf("%+v", end)
	}
	c.only("web", "a")
}
