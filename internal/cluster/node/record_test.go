// SPDX-License-Identifier: Apache-2.0

package node

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/base/audit"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// TestMovesAreRecorded: a move is on record at its source (its end), at its target
// (each step, with the node that asked) and in the manager (each state), and a request
// without an order is on record where it was refused.
func TestMovesAreRecorded(t *testing.T) {
	c := newCluster(t)
	logs := map[string]*audit.Log{}
	nodes := map[string]*testNode{}
	for _, name := range []string{"a", "b"} {
		o := c.options(name)
		logs[name] = audit.New(filepath.Join(t.TempDir(), "audit.log"), slog.New(slog.DiscardHandler))
		o.Audit = logs[name]
		nodes[name] = c.run(o, newAgent(c.world, name, 100e6))
	}
	c.world.put("a", "web")
	c.up(2)
	read := func(log *audit.Log) []audit.Entry {
		t.Helper()
		list, err := log.Read(t.Context(), audit.Query{})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	var mv api.Move
	if !eventually(func() bool {
		var err error
		mv, err = c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
		return err == nil
	}) {
		t.Fatal("no move")
	}
	if mv = c.ended(mv.ID); mv.State != wire.MoveDone {
		t.Fatalf("move %+v", mv)
	}
	source := read(logs["a"])
	if len(source) != 1 || source[0].Who.Via != audit.ViaManager || source[0].Action != "move" || source[0].Object != "web" || source[0].Result != audit.Done {
		t.Errorf("source: %+v", source)
	}
	target := read(logs["b"])
	if len(target) < 3 {
		t.Errorf("target: %+v", target)
	}
	for _, e := range target {
		if e.Action == "step" && (e.Who.Via != audit.ViaNode || e.Who.Node != "a" || e.Object != "web" || e.Result != audit.Done) {
			t.Errorf("target: %+v", e)
		}
	}
	before := len(target)
	stranger := nodes["a"].moves.Target(wire.Move{To: "b", Address: nodes["b"].listener.Addr().String()}, []byte("nonsense"))
	if _, err := stranger.Do(t.Context(), move.Create, migrate.MoveSpec{Move: "m"}); err == nil {
		t.Error("a step without an order was done")
	}
	target = read(logs["b"])
	if len(target) != before+1 || target[before].Result != audit.Refused || target[before].Who.Node != "a" || !strings.Contains(target[before].Reason, "order") {
		t.Errorf("refused: %+v", target[before:])
	}
	if i := slices.IndexFunc(target, func(e audit.Entry) bool { return e.Who.Via == audit.ViaSocket }); i >= 0 {
		t.Errorf("nobody used a socket: %+v", target[i])
	}
}
