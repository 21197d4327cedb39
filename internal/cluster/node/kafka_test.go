// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"slices"
	"testing"

	"weir/internal/api"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/bustest"
	"weir/internal/cluster/migrate"
)

// TestOnKafka runs what is run on NATS with a real broker. All clusters use the same
// one, so each finds what those before it have left there, and has to refuse it.
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

// brokerRestarts in the middle of a migration: the reports of its end arrive.
func brokerRestarts(t *testing.T, broker *bustest.Broker) {
	c := newCluster(t)
	c.node("a", 100e6)
	c.node("b", 100e6)
	c.world.put("a", "web")
	gate := make(chan struct{})
	c.world.slow[migrate.StepFreeze] = gate
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
