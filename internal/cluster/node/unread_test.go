// SPDX-License-Identifier: Apache-2.0

package node

import (
	"io"
	"net/http"
	"testing"
	"time"

	"weir/internal/core/wire"
)

// TestOrdersBeforeBodies: a call without an order of the manager's for the node that makes it is
// refused before its body is read: the answer comes while nothing of the body does.
func TestOrdersBeforeBodies(t *testing.T) {
	c := newCluster(t)
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.world.put("b", "db")
	c.up(2)
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: a.members.ClientTLS("b")}}
	soon := time.Now().Add(time.Minute)
	for name, permission := range map[string][]byte{
		"none": nil, "nonsense": []byte("nonsense"),
		"of another node": c.seal(c.managerKey(), "b", wire.Move{ID: "m-1", Container: "db", From: "b", To: "a", Deadline: soon}),
		"of the node's":   c.seal(b.members.Identity().Key, "a", wire.Move{ID: "m-1", Container: "db", From: "a", To: "b", Deadline: soon}),
	} {
		for _, verb := range []string{"facts", "lacking", "begin", "do", "receive", "describe", "no-such-verb"} {
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
