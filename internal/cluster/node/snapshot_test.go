// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/manager"
	"weir/internal/cluster/manager/statedir"
	"weir/internal/cluster/move"
	"weir/internal/cluster/node/guest"
	"weir/internal/core/refusal"
)

// TestRestoredManager: the disk of a manager is lost while moves are under way. Restored
// from a snapshot elsewhere, at the same address, it goes on: nodes need not join again,
// what ended meanwhile is settled, also where its report was lost with the bus, and
// orders count.
func TestRestoredManager(t *testing.T) {
	if onBus.Kind != bus.NATS {
		t.Skip("the bus is not lost with the manager")
	}
	c := newCluster(t)
	a := c.node("a", 100e6)
	b := c.node("b", 100e6)
	c.world.put("a", "web")
	c.world.put("b", "db")
	c.up(2)
	c.seen(2)
	gate := make(chan struct{})
	c.world.mu.Lock()
	c.world.slow[move.Freeze] = gate
	c.world.mu.Unlock()
	told, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	untold, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "db", To: "a"}, false)
	if err != nil {
		t.Fatal(err)
	}
	c.inStep(told.ID, "freeze")
	token, err := c.manager.NewToken(t.Context(), api.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.manager.Snapshot(t.Context())
	if err != nil || s.Nodes != 2 || s.Moves != 2 {
		t.Fatalf("%+v, %v", s.Nodes, err)
	}

	close(gate)
	c.ended(told.ID) // and reported, to a manager that is about to vanish
	c.stop()
	if err := os.RemoveAll(c.opts.Dir); err != nil {
		t.Fatal(err)
	}
	c.opts.Dir = filepath.Join(c.dir, "elsewhere")
	r, err := manager.Restore(bytes.NewReader(s.Data), statedir.RestoreOptions{Dir: c.opts.Dir})
	if err != nil || len(r.Nodes) != 2 || r.Moves != 2 || r.Aside != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	c.start()
	c.up(2)
	for _, mv := range []api.Move{told, untold} {
		if end := c.ended(mv.ID); end.State != "done" {
			t.Errorf("%+v", end)
		}
	}
	c.only("web", "b")
	c.only("db", "a")
	for _, n := range []*testNode{a, b} {
		if n.log.Has("joined") {
			t.Error("a node has joined again")
		}
	}
	c.seen(2)
	next, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "a"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if end := c.ended(next.ID); end.State != "done" {
		t.Errorf("an order of the restored manager: %+v", end)
	}
	o := c.options("late")
	o.Token = token.Token
	_, err = enroll(t.Context(), o)
	refusedAs(t, err, refusal.Denied, "not known to the manager")
}

// TestRestoredManagerKnowsLess: a move waited when the snapshot was taken, and was ordered
// before the disk was lost. Its source asks the restored manager for a grant, is told to
// wait, and moves the container when its turn has come.
func TestRestoredManagerKnowsLess(t *testing.T) {
	if onBus.Kind != bus.NATS {
		t.Skip("the bus is not lost with the manager")
	}
	c := newCluster(t)
	c.stop()
	c.opts.Automatic.AtOnce = 1
	c.start()
	x := c.node("x", 100e6)
	c.node("a", 100e6)
	c.node("b", 100e6)
	c.world.put("x", "web")
	c.world.put("b", "db")
	c.up(3)
	c.seen(2)
	gate, hidden := make(chan struct{}), make(chan struct{})
	c.world.mu.Lock()
	c.world.slow[move.Freeze] = gate
	c.world.hide = map[string]chan struct{}{"db": hidden}
	c.world.mu.Unlock()
	first, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "db", To: "a"}, false)
	if err != nil || second.State != "waiting" {
		t.Fatalf("%+v, %v", second, err)
	}
	c.inStep(first.ID, "freeze")
	s, err := c.manager.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	close(gate)
	c.ended(first.ID)
	c.inStep(second.ID, "pre-flight")
	c.stop()
	x.stop() // so the restored manager does not learn at once that the first has ended
	if err := os.RemoveAll(c.opts.Dir); err != nil {
		t.Fatal(err)
	}
	c.opts.Dir = filepath.Join(c.dir, "elsewhere")
	if _, err := manager.Restore(bytes.NewReader(s.Data), statedir.RestoreOptions{Dir: c.opts.Dir}); err != nil {
		t.Fatal(err)
	}
	c.start()
	close(hidden)
	c.log.Wait(t, "grant", second.ID, "waiting")
	c.run(x.opts, x.agent)
	if end := c.ended(second.ID); end.State != "done" {
		t.Errorf("%+v", end)
	}
	c.only("web", "b")
	c.only("db", "a")
}

// TestRestoredManagerOrdersAnotherMove: the snapshot is older than a move that is under way,
// so the restored manager orders the container to another target as well. Its source
// refuses: the container ends on one node, and the other target begins no copy.
func TestRestoredManagerOrdersAnotherMove(t *testing.T) {
	if onBus.Kind != bus.NATS {
		t.Skip("the bus is not lost with the manager")
	}
	c := newCluster(t)
	c.node("a", 100e6)
	c.node("b", 100e6)
	other := c.node("c", 100e6)
	c.world.put("a", "web")
	c.up(3)
	c.seen(1)
	s, err := c.manager.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	c.world.mu.Lock()
	c.world.slow[move.PullImage] = gate
	c.world.mu.Unlock()
	first, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	c.inStep(first.ID, "pull-image")
	c.stop()
	if err := os.RemoveAll(c.opts.Dir); err != nil {
		t.Fatal(err)
	}
	c.opts.Dir = filepath.Join(c.dir, "elsewhere")
	if _, err := manager.Restore(bytes.NewReader(s.Data), statedir.RestoreOptions{Dir: c.opts.Dir}); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.up(3)
	c.seen(1)
	second, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "c"}, false)
	if err != nil {
		t.Fatal(err)
	}
	c.world.mu.Lock()
	delete(c.world.slow, move.PullImage)
	c.world.mu.Unlock()
	if end := c.ended(second.ID); end.State != "refused" || !strings.Contains(end.Error, "move "+first.ID+" of web is under way") {
		t.Errorf("a second move of a container under way: %+v", end)
	}
	if list := other.incoming.Guests(func(guest.Arrival) bool { return true }); len(list) != 0 {
		t.Errorf("%d copies were begun at the other target", len(list))
	}
	close(gate)
	if !eventually(func() bool { at := c.world.where("web"); return len(at) == 1 && at[0] == "b" }) {
		t.Errorf("web runs on %v", c.world.where("web"))
	}
}
