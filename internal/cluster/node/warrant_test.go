// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
	"weir/internal/cluster/node/membership"
	"weir/internal/cluster/warrant"
)

// behindHelpers has each node use its engine through a migration helper, which examines
// the manager's grants itself. The ledgers are by node.
func (c *cluster) behindHelpers() map[string]*warrant.Admissions {
	ledgers := map[string]*warrant.Admissions{}
	c.helper = func(o Options, e migrate.Engine) migrate.Engine {
		c.t.Helper()
		dir, err := os.MkdirTemp("", "weir-helper") // t.TempDir is too long for a socket's path
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { os.RemoveAll(dir) })
		log := slog.New(slog.DiscardHandler)
		l, err := warrant.Open(warrant.Options{Dir: filepath.Join(dir, "own"), Engine: e.Kind(), AcceptFrom: o.AcceptFrom, Registry: o.Registry, Log: log,
			Sources: warrant.Sources{Identity: membership.IdentityDir(o.Dir)}})
		if err != nil {
			c.t.Fatal(err)
		}
		ledgers[o.Name] = l
		ln, err := net.Listen("unix", filepath.Join(dir, "s"))
		if err != nil {
			c.t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- remote.NewHelper(e, l, 0, log).Serve(ctx, ln) }()
		c.t.Cleanup(func() { cancel(); <-ended })
		behind, err := remote.Open(filepath.Join(dir, "s"), e.Kind())
		if err != nil {
			c.t.Fatal(err)
		}
		return behind
	}
	return ledgers
}

// TestMovesThroughHelpers: nodes whose helpers examine each grant move a container there
// and back, and roll one back, and no call is refused. The authority is replaced between.
func TestMovesThroughHelpers(t *testing.T) {
	c := newCluster(t)
	ledgers := c.behindHelpers()
	c.node("a", 100e6)
	c.node("b", 100e6)
	c.world.put("a", "web")
	c.up(2)
	c.moved("web", "b")
	if _, err := c.manager.RotateAuthority(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.moved("web", "a")
	c.world.mu.Lock()
	c.world.fail[move.Restore] = &move.Error{Code: move.CodeFailed, Msg: "no memory left"}
	c.world.mu.Unlock()
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if mv = c.ended(mv.ID); mv.State != "rolled-back" || !strings.Contains(mv.Error, "no memory left") {
		t.Errorf("%+v", mv)
	}
	c.only("web", "a")
	for name, l := range ledgers {
		if l.Refused() > 0 {
			t.Errorf("the helper of %s has refused %d calls", name, l.Refused())
		}
	}
}
