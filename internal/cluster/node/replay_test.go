// SPDX-License-Identifier: Apache-2.0

package node

import (
	"path/filepath"
	"testing"
	"time"

	"weir/internal/api/apitest"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
)

// TestRepeatedApplies: a genuine order that the bus, or an attacker who can write to it,
// brings again does not bring an old policy back, neither a month later nor after a newer
// one, and not after a restart of the node either.
func TestRepeatedApplies(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 100e6)
	c.world.put("a", "web")
	c.up(1)
	own, err := pki.LoadIdentity(filepath.Join(c.opts.Dir, "own"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	sealed := func(id, max string, term wire.Term) []byte {
		t.Helper()
		data, err := wire.SealOrder(own.Key, "L.a", id, now, term, &wire.Apply{ID: id, Workload: "web", Change: wire.ChangeJSON(`{"max":"` + max + `"}`)})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	publish := func(id string, data []byte) {
		t.Helper()
		if err := c.manager.Bus().Publish(t.Context(), "L.a", id, data); err != nil {
			t.Fatal(err)
		}
	}
	month := 30 * 24 * time.Hour
	publish("old", sealed("old", "1kbit", wire.Term{Until: now.Add(-month), Seq: 1}))
	a.log.Wait(t, "order refused", "past its deadline", "set the clocks")
	publish("no-term", sealed("no-term", "1kbit", wire.Term{}))
	a.log.Wait(t, "order refused", "without a deadline or a sequence")
	unsent, err := wire.Seal(own.Key, wire.Manager, "L.a", "plain", now, &wire.Apply{ID: "plain", Workload: "web", Change: wire.ChangeJSON(`{"max":"1kbit"}`)})
	if err != nil {
		t.Fatal(err)
	}
	publish("plain", unsent)

	held := sealed("held-back", "2kbit", wire.Term{Until: now.Add(time.Minute), Seq: 7})
	publish("newer", sealed("newer", "9mbit", wire.Term{Until: now.Add(time.Minute), Seq: 8}))
	is := func(max string) bool { return a.agent.has(t, "web") == text(t, apitest.Change("max", max)) }
	if !eventually(func() bool { return is("9mbit") }) {
		t.Fatalf("web has %s", a.agent.has(t, "web"))
	}
	publish("held-back", held)
	a.log.Wait(t, "order refused", "repeated after a newer one", "id=held-back")

	a.stop()
	a = c.run(a.opts, a.agent)
	publish("held-back again", held)
	a.log.Wait(t, "order refused", "repeated after a newer one", "id=held-back")
	if !is("9mbit") {
		t.Errorf("web has %s", a.agent.has(t, "web"))
	}
}
