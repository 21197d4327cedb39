// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/base/tlsfile"
	"weir/internal/base/tlsfile/tlstest"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/bustest"
	"weir/internal/cluster/bus/kafka"
	"weir/internal/cluster/manager"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// TestOnKafka runs the tests of NATS with a real broker. All clusters use the same
// one, so each finds what earlier ones have left there, and has to refuse it.
func TestOnKafka(t *testing.T) {
	broker := bustest.StartBroker(t)
	was := onBus
	t.Cleanup(func() { onBus = was })
	onBus = bus.Address{Kind: bus.Kafka, Hosts: []string{broker.Address}}
	tests := map[string]func(*testing.T){"Migrate": TestMigrate, "RefusedMinMoves": TestRefusedMinMoves, "ForgedOrders": TestForgedOrders}
	if *long {
		maps.Copy(tests, map[string]func(*testing.T){"RolledBack": TestRolledBack, "ManagerRestarts": TestManagerRestarts,
			"NodeRestarts": TestNodeRestarts, "CutOff": TestCutOff, "Rebalance": TestRebalance})
	}
	for name, test := range tests {
		t.Run(name, test)
	}
	t.Run("BrokerRestarts", func(t *testing.T) { brokerRestarts(t, broker) })
}

// TestOnSecuredKafka: a cluster over a real broker that takes members by mutual TLS alone.
// Two nodes join, profiles arrive, a container moves, a refused min is moved and applied,
// and who shows no certificate of the broker's authority is refused.
func TestOnSecuredKafka(t *testing.T) {
	if !*long {
		t.Skip("SKIP: takes a minute on a busy machine; -long runs it")
	}
	ours := tlstest.New(t, "ours")
	dir, server := t.TempDir(), ours.Issue(t, "broker")
	broker := bustest.StartBrokerWith(t, func(port int) string { return bustest.Secured(t, port, dir, server, "unused") })
	was, before := onBus, overKafka
	t.Cleanup(func() { onBus, overKafka = was, before })
	onBus = bus.Address{Kind: bus.Kafka, Hosts: []string{broker.At(bustest.MutualPort)}}
	files := map[string]tlsfile.Files{}
	for _, member := range []string{wire.Manager, "a", "b"} {
		files[member] = ours.Issue(t, member)
	}
	overKafka = func(member string) kafka.Security { return kafka.Security{TLS: true, Files: files[member]} }
	t.Run("Migrate", TestMigrate)
	t.Run("RefusedMinMoves", TestRefusedMinMoves)
	t.Run("Stranger", func(t *testing.T) {
		o := newCluster(t).opts
		o.Dir, o.Kafka.Files = t.TempDir(), tlsfile.Files{CA: files["a"].CA}
		if _, err := manager.Init(o.Dir, time.Now()); err != nil {
			t.Fatal(err)
		}
		m, err := manager.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := m.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "give cert and key") {
			t.Errorf("a manager without a certificate: %v", err)
		}
	})
}

// brokerRestarts in the middle of a migration: the reports of its end arrive.
func brokerRestarts(t *testing.T, broker *bustest.Broker) {
	c := newCluster(t)
	c.node("a", 100e6)
	c.node("b", 100e6)
	c.world.put("a", "web")
	gate := make(chan struct{})
	c.world.slow[move.Freeze] = gate
	c.up(2)
	c.seen(1)
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { m, _ := c.manager.Move(t.Context(), mv.ID); return m.State == "running" }) {
		t.Fatal("the move does not begin")
	}
	broker.Kill()
	close(gate)
	if !eventually(func() bool { return slices.Equal(c.world.where("web"), []string{"b"}) }) {
		t.Fatal("the move does not go on without a broker")
	}
	broker.Start(t)
	if mv = c.ended(mv.ID); mv.State != "done" {
		t.Errorf("%+v", mv)
	}
	c.up(2)
}
