// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/kafka"
	"weir/internal/cluster/manager"
	"weir/internal/cluster/manager/planning"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/node/membership"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
	"weir/internal/test/logtest"
)

func eventually(f func() bool) bool {
	for range 600 {
		if f() {
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

// cluster is a manager with nodes, in this process, over real connections.
type cluster struct {
	t       *testing.T
	dir     string
	opts    manager.Options
	log     *logtest.Buffer
	manager *manager.Manager
	stop    func()
	world   *world
	token   string
	helper  func(o Options, e migrate.Engine) migrate.Engine // between a node and its engine; nil = none
}

// onBus is the bus of all clusters that are made; TestOnKafka changes it.
var onBus = bus.Address{Kind: bus.NATS}

// overKafka is how a member connects to the brokers; TestOnSecuredKafka changes it.
var overKafka = func(member string) kafka.Security { return kafka.Security{} }

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), log: &logtest.Buffer{}, world: newWorld()}
	token, err := manager.InitFor(filepath.Join(c.dir, "manager"), api.AnyNumber, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c.token = token.String()
	c.opts = manager.Options{Dir: filepath.Join(c.dir, "manager"), Listen: "127.0.0.1:0", BusListen: "127.0.0.1:0", Bus: onBus,
		Kafka: overKafka(wire.Manager), Automatic: planning.DefaultAutomatic(), Log: slog.New(slog.NewTextHandler(c.log, nil))}
	c.start()
	t.Cleanup(func() { c.stop() })
	return c
}

// start runs the manager; again at the same address after stop.
func (c *cluster) start() {
	c.t.Helper()
	m, err := manager.New(c.opts)
	if err == nil {
		err = m.Listen(context.Background())
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.manager, c.opts.Listen, c.opts.BusListen = m, m.Addr(), m.BusAddr()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var once sync.Once
	c.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				c.t.Errorf("manager: %v", err)
			}
		})
	}
}

// testNode is a node that runs.
type testNode struct {
	*Node
	agent *fakeAgent
	log   *logtest.Buffer
	stop  func()
	opts  Options
}

// enroll makes a machine a member.
func enroll(ctx context.Context, o Options) (pki.Identity, error) {
	return membership.Enroll(ctx, o.membership(o.Log))
}

func (c *cluster) options(name string) Options {
	return Options{Manager: c.opts.Listen, Token: c.token, Name: name, Listen: "127.0.0.1:0", Dir: filepath.Join(c.dir, name),
		Heartbeat: 100 * time.Millisecond, Interval: 100 * time.Millisecond, Version: "test",
		Kafka: overKafka(name)}
}

// node starts a node whose link can guarantee so many bit/s.
func (c *cluster) node(name string, capacity uint64) *testNode {
	c.t.Helper()
	return c.run(c.options(name), newAgent(c.world, name, capacity))
}

func (c *cluster) run(o Options, agent *fakeAgent) *testNode {
	c.t.Helper()
	n := &testNode{agent: agent, log: &logtest.Buffer{}}
	o.Log = slog.New(slog.NewTextHandler(n.log, nil))
	o.Agent, o.Profile = agent, agent.profile
	id, err := enroll(c.t.Context(), o)
	if err != nil {
		c.t.Fatalf("%s: %v", o.Name, err)
	}
	var own migrate.Engine = engine{c.world, o.Name}
	if c.helper != nil {
		own = c.helper(o, own)
	}
	local, err := migrate.NewLocal(o.Name, own, filepath.Join(o.Dir, "migrate"), o.Log)
	if err != nil {
		c.t.Fatal(err)
	}
	o.Engine = local
	n.opts = o
	if n.Node, err = New(o, id); err == nil {
		err = n.Listen()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	var once sync.Once
	n.stop = func() { once.Do(func() { cancel(); <-done; local.Close() }) }
	c.t.Cleanup(n.stop)
	return n
}

// up waits until the manager knows of so many nodes what they have.
func (c *cluster) up(many int) {
	c.t.Helper()
	if !eventually(func() bool {
		list, err := c.manager.Nodes(c.t.Context())
		known := 0
		for _, n := range list {
			if n.State == "up" && n.CPUCapacity > 0 && n.CRIU != "" {
				known++
			}
		}
		return err == nil && known == many
	}) {
		list, _ := c.manager.Nodes(c.t.Context())
		c.t.Fatalf("not all of %d nodes are up: %+v\n%s", many, list, c.log)
	}
}

// ended waits for the end of a move.
func (c *cluster) ended(id string) api.Move {
	c.t.Helper()
	var mv api.Move
	if !eventually(func() bool {
		var err error
		mv, err = c.manager.Move(c.t.Context(), id)
		return err == nil && !mv.Ended.IsZero()
	}) {
		c.t.Fatalf("move %s does not end: %+v\n%s", id, mv, c.log)
	}
	return mv
}

// only checks that a container runs on one node, this one.
func (c *cluster) only(container, node string) {
	c.t.Helper()
	if at := c.world.where(container); !slices.Equal(at, []string{node}) {
		c.t.Errorf("%s runs on %v, want %s", container, at, node)
	}
}

// refusedAs checks the fields of a *refusal.Error.
func refusedAs(t *testing.T, err error, kind refusal.Kind, words ...string) {
	t.Helper()
	var refused *refusal.Error
	if !errors.As(err, &refused) || refused.Kind != kind {
		t.Errorf("got %v, want a refusal of kind %s", err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error()+refused.Value, w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}
