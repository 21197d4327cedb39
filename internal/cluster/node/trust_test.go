// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/base64"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/nats"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/node/membership"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

func TestJoinRefused(t *testing.T) {
	c := newCluster(t)
	c.node("a", 1e6)
	other := newCluster(t)
	bound, err := c.manager.NewToken(t.Context(), api.TokenRequest{Node: "x"})
	if err != nil {
		t.Fatal(err)
	}
	short, err := c.manager.NewToken(t.Context(), api.TokenRequest{TTLSeconds: 0.001})
	if err != nil {
		t.Fatal(err)
	}
	revoked, err := c.manager.NewToken(t.Context(), api.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.manager.RevokeToken(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	forged, err := pki.ParseToken(c.token)
	if err != nil {
		t.Fatal(err)
	}
	forged.Secret = strings.Repeat("0", 32)
	time.Sleep(10 * time.Millisecond)
	for name, r := range map[string]struct {
		token, node string
		kind        refusal.Kind
		words       []string
		logged      bool
	}{
		"none":            {"", "b", refusal.Denied, []string{"cluster.token", "is missing", "weir manager token create"}, false},
		"nonsense":        {"abc", "b", refusal.Invalid, []string{"cluster.token", "weir manager init"}, false},
		"bad name":        {c.token, "B_1", refusal.Invalid, []string{"cluster.name", "small letters"}, false},
		"taken":           {c.token, "a", refusal.Conflict, []string{"has joined already", "weir manager remove a"}, true},
		"expired":         {short.Token, "b", refusal.Denied, []string{"has expired at", "weir manager token create"}, true},
		"revoked":         {revoked.Token, "b", refusal.Denied, []string{"not known to the manager"}, true},
		"guessed":         {forged.String(), "b", refusal.Denied, []string{"not known to the manager"}, true},
		"for another":     {bound.Token, "b", refusal.Denied, []string{"is for node x, not for b"}, true},
		"another manager": {other.token, "b", refusal.Denied, []string{"another manager"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.options("b")
			o.Name, o.Token, o.Dir = r.node, r.token, t.TempDir()
			_, err := enroll(t.Context(), o)
			refusedAs(t, err, r.kind, r.words...)
			if r.logged {
				c.log.Wait(t, "node refused", "node="+r.node, "peer=127.0.0.1")
			}
			if _, err := pki.LoadIdentity(membership.IdentityDir(o.Dir)); err == nil {
				t.Error("it has a certificate")
			}
		})
	}
}

// TestStrangersAtTheManager: without a certificate of the cluster there is nothing to
// be had but joining, and that is logged.
func TestStrangersAtTheManager(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 1e6)
	token, err := pki.ParseToken(c.token)
	if err != nil {
		t.Fatal(err)
	}
	_, err = membership.Ask[wire.Info](t.Context(), membership.ManagerAt(c.opts.Listen, pki.Joining(token, time.Now)), http.MethodGet, "/v1/info", nil)
	refusedAs(t, err, refusal.Denied, "certificate")
	c.log.Wait(t, "request refused", "no certificate of this cluster was shown")

	stranger, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	id := a.members.Identity()
	request, _ := pki.Request(id.Key)
	if id.Cert, err = stranger.IssueNode("a", request, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err = membership.Ask[wire.Info](t.Context(), membership.ManagerAt(c.opts.Listen, id.Client(pki.ManagerName)), http.MethodGet, "/v1/info", nil); err == nil {
		t.Error("a certificate of another authority was accepted")
	}
	c.log.Wait(t, "TLS handshake error", "certificate")

	_, err = membership.Ask[wire.PlaceAnswer](t.Context(), a.members.Manager(), http.MethodPost, "/v1/places",
		wire.PlaceRequest{ID: "p", Node: "b", Container: "web", Change: wire.ChangeJSON("{}")})
	refusedAs(t, err, refusal.Denied, "is not a")
}

// TestRemovedNode: its certificate counts no more, on the bus and elsewhere.
func TestRemovedNode(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 1e6)
	c.up(1)
	if _, err := c.manager.RemoveNode(t.Context(), "b"); err == nil {
		t.Error("an unknown node was removed")
	}
	if _, err := c.manager.RemoveNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	c.log.Wait(t, "connection to the bus refused", "node=a", "is no member")
	_, err := membership.Ask[wire.Info](t.Context(), a.members.Manager(), http.MethodGet, "/v1/info", nil)
	refusedAs(t, err, refusal.Denied, "is no member")
	if list, _ := c.manager.Nodes(t.Context()); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// TestForgedOrders: the bus keeps a node from giving orders (package bus/nats); should
// it not, as Kafka does not, the signature does.
func TestForgedOrders(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 100e6)
	b := c.node("b", 100e6)
	c.world.put("a", "web")
	c.up(2)
	forged := wire.Move{ID: "m-forged", Container: "web", From: "a", To: "b", Address: "127.0.0.1:1", Deadline: time.Now().Add(time.Hour)}
	seal := func(key *testNode, from string, on wire.Subject) []byte {
		t.Helper()
		data, err := wire.Seal(key.members.Identity().Key, from, on, forged.ID, time.Now(), &forged)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	carrier := c.manager.Bus()
	for name, data := range map[string][]byte{
		"by a node":                     seal(b, "b", "L.a"),
		"in the manager's name":         seal(b, wire.Manager, "L.a"),
		"in the manager's name, itself": seal(a, wire.Manager, "L.a"),
		"nonsense":                      []byte("move web to b"),
		"of another version":            []byte(`{"v":9,"kind":"move"}`),
	} {
		if err := carrier.Publish(t.Context(), "L.a", name, data); err != nil {
			t.Fatal(err)
		}
	}
	for _, why := range []string{"only the manager gives orders", "not signed by manager", "malformed", "another version"} {
		a.log.Wait(t, "order refused", "subject=L.a", why)
	}
	// And reports, heartbeats and profiles of others.
	for _, topic := range []wire.Topic{wire.Reports, wire.Heartbeats, wire.Profiles} {
		data, err := wire.Seal(b.members.Identity().Key, "a", topic.Of("a"), "x", time.Now(), &wire.Heartbeat{Node: "a"})
		if err == nil {
			err = carrier.Publish(t.Context(), topic.Of("a"), "forged", data)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.log.Wait(t, "message refused", "subject="+string(topic.Of("a")), "not signed by a")
	}
	c.only("web", "a")
	if st, _ := c.manager.Cluster(t.Context()); st.Refused < 3 {
		t.Errorf("%d refusals were counted", st.Refused)
	}
	if onBus.Kind != bus.NATS {
		return
	}
	// The way that the bus itself forbids.
	conn, err := nats.Dial(c.opts.BusListen, b.members.Identity(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Publish(t.Context(), "L.a", "1", seal(b, wire.Manager, "L.a")); err == nil {
		t.Error("the bus has taken an order of a node's")
	}
	c.log.Wait(t, "Publish Violation", "L.a")
}

// TestMigrationsNeedAnOrder: a node takes nothing from another without the manager's
// order for exactly that.
func TestMigrationsNeedAnOrder(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 100e6)
	b := c.node("b", 100e6)
	c.up(2)
	address := b.listener.Addr().String()
	for name, r := range map[string]struct {
		order wire.Move
		key   *testNode // signs in the manager's name; nil = the manager itself
		call  migrate.MoveSpec
		words string
	}{
		"self-made":      {wire.Move{ID: "m", Container: "web", From: "a", To: "b"}, a, migrate.MoveSpec{Move: "m"}, "not signed by manager"},
		"another target": {wire.Move{ID: "m", Container: "web", From: "a", To: "x"}, nil, migrate.MoveSpec{Move: "m"}, "from a to x"},
		"another move": {wire.Move{ID: "m", Container: "web", From: "a", To: "b", Deadline: time.Now().Add(time.Minute)}, nil,
			migrate.MoveSpec{Move: "m", From: "a", To: "b", Container: migrate.Container{Name: "db"}}, "about another move"},
	} {
		t.Run(name, func(t *testing.T) {
			own, err := pki.LoadIdentity(filepath.Join(c.opts.Dir, "own"))
			if err != nil {
				t.Fatal(err)
			}
			key := own.Key
			if r.key != nil {
				key = r.key.members.Identity().Key
			}
			data, err := wire.SealOrder(key, "L.a", "m", time.Now(), wire.Term{Until: time.Now().Add(time.Minute), Seq: 1}, &r.order)
			if err != nil {
				t.Fatal(err)
			}
			remote := a.moves.Target(wire.Move{To: "b", Address: address}, data)
			if _, err := remote.Lacking(t.Context(), r.call); err == nil || !strings.Contains(err.Error(), r.words) {
				t.Errorf("%v", err)
			}
			b.log.Wait(t, "migration refused", r.words)
		})
	}
	t.Run("no order", func(t *testing.T) {
		remote := a.moves.Target(wire.Move{To: "b", Address: address}, nil)
		if _, err := remote.Facts(t.Context()); err == nil || !strings.Contains(err.Error(), "no order") {
			t.Errorf("%v", err)
		}
	})
	t.Run("no certificate", func(t *testing.T) {
		cfg := a.members.ClientTLS("b")
		cfg.GetClientCertificate = nil
		req, _ := http.NewRequest(http.MethodPost, "https://"+address+remote.Path+"facts", nil)
		req.Header.Set(remote.OrderHeader, base64.StdEncoding.EncodeToString([]byte("x")))
		if resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: cfg}}).Do(req); err == nil {
			resp.Body.Close()
			t.Errorf("answered %s", resp.Status)
		}
		b.log.Wait(t, "TLS handshake error", "certificate")
	})
}
