// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/base/audit"
	"weir/internal/base/crowd/crowdtest"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/node/gate"
	"weir/internal/core/bound"
	"weir/internal/core/wire"
)

// verbsAtNodes are the calls that a node answers, and one that it does not know.
var verbsAtNodes = []string{"facts", "lacking", "begin", "do", "receive", "describe", "no-such-verb"}

// noPermissions returns orders by which node b lets a ask for nothing.
func (c *cluster) noPermissions(b *testNode) map[string][]byte {
	soon := time.Now().Add(time.Minute)
	forB := wire.Move{ID: "m-1", Container: "db", From: "a", To: "b", Deadline: soon}
	return map[string][]byte{
		"none": nil, "nonsense": []byte("nonsense"),
		"of the longest nonsense": []byte(strings.Repeat("x", bound.Header*3/4-200)), // in base 64
		"of another node":         c.seal(c.managerKey(), "b", wire.Move{ID: "m-1", Container: "db", From: "b", To: "a", Deadline: soon}),
		"of the node's":           c.seal(b.members.Identity().Key, "a", forB),
		"altered":                 altered(c.seal(c.managerKey(), "a", forB), soon, soon.Add(time.Hour)),
	}
}

// TestWhatRefusalsCost: a call of a node that has no order of the manager's for it, or
// too many calls under way, costs the node that it asks little, and none of its body is read.
func TestWhatRefusalsCost(t *testing.T) {
	c := newCluster(t)
	a, o := c.node("a", 100e6), c.options("b")
	o.Audit = audit.New(filepath.Join(t.TempDir(), "audit.log"), slog.New(slog.DiscardHandler))
	defer o.Audit.Close()
	b := c.run(o, newAgent(c.world, "b", 100e6))
	c.up(2)
	h := b.incoming.Handler()
	refused := func(what, verb string, permission []byte, status int) {
		t.Helper()
		crowdtest.Refused(t, h, what, crowdtest.RefusedRequest{Method: http.MethodPost, Path: remote.Path + verb, Body: crowdtest.Long, With: func(r *http.Request) {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{a.members.Identity().Cert}}
			r.Header.Set(remote.OrderHeader, base64.StdEncoding.EncodeToString(permission))
		}}, status, true)
	}
	forB := wire.Move{ID: "m-1", Container: "db", From: "a", To: "b", Deadline: time.Now().Add(time.Minute)}
	forC, late := forB, forB
	forC.To, late.Deadline = "c", time.Now().Add(-time.Minute)
	inTime := c.seal(c.managerKey(), "a", forB)
	for _, verb := range verbsAtNodes {
		for name, permission := range c.noPermissions(b) {
			refused("an order "+name, verb, permission, http.StatusConflict)
		}
		refused("an order for another node", verb, c.seal(c.managerKey(), "a", forC), http.StatusConflict)
		refused("an order that is late", verb, c.seal(c.managerKey(), "a", late), http.StatusConflict)
		if verb != "facts" && verb != "lacking" {
			refused("an order without a grant", verb, inTime, http.StatusConflict)
		}
	}
	for range gate.CallsEach {
		if _, over := b.calls.Enter("a", false); over != nil {
			t.Fatal(over)
		}
	}
	for _, verb := range verbsAtNodes {
		refused("too many", verb, inTime, http.StatusTooManyRequests)
	}
}

// TestOrdersBeforeBodies: a call without an order of the manager's for the node that makes it is
// refused before its body is read: the answer comes while nothing of the body does.
func TestOrdersBeforeBodies(t *testing.T) {
	c := newCluster(t)
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.world.put("b", "db")
	c.up(2)
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: a.members.ClientTLS("b")}}
	for name, permission := range c.noPermissions(b) {
		for _, verb := range verbsAtNodes {
			body, never := io.Pipe()
			begun := time.Now()
			status, answer, err := attack{target: b, verb: verb, permission: permission, stream: body}.try(client)
			never.Close()
			if err != nil || status < 400 || status > 499 {
				t.Errorf("an order %s, %s: status %d after %v: %s %v", name, verb, status, time.Since(begun), answer, err)
			}
		}
	}
}
