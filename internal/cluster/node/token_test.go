// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/node/membership"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// TestTokensAreForOneNode: who finds a token that was used cannot join by it. A node
// whose answer was lost can.
func TestTokensAreForOneNode(t *testing.T) {
	c := newCluster(t)
	made, err := c.manager.NewToken(t.Context(), api.TokenRequest{})
	if err != nil || made.Uses != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	options := func(name, token string) Options {
		o := c.options(name)
		o.Token = token
		return o
	}
	// The first answer is lost: the manager knows the node, the node has no certificate.
	o := options("a", made.Token)
	key, err := pki.NewKey()
	if err == nil {
		err = os.MkdirAll(o.Dir, 0o700)
	}
	kept := filepath.Join(o.Dir, "joining.key")
	if err == nil {
		err = os.WriteFile(kept, key.Seed(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.Request(key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := pki.ParseToken(made.Token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := membership.Ask[wire.JoinAnswer](t.Context(), membership.ManagerAt(o.Manager, pki.Joining(parsed, time.Now)), http.MethodPost, "/v1/join",
		wire.JoinRequest{Token: parsed.ID, Secret: parsed.Secret, Node: "a", Request: request}); err != nil {
		t.Fatal(err)
	}
	id, err := enroll(t.Context(), o)
	if err != nil || !id.Key.Equal(key) {
		t.Fatalf("it cannot ask again: %v", err)
	}
	if _, err := os.Stat(kept); !os.IsNotExist(err) {
		t.Errorf("the key is there twice: %v", err)
	}
	_, err = enroll(t.Context(), options("b", made.Token))
	refusedAs(t, err, refusal.Denied, "was used already", "it is for 1", "--uses N")
	c.log.Wait(t, "node refused", "node=b", "was used already")

	// Once the node is removed, its token does not bring it back.
	if _, err := c.manager.RemoveNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		t.Fatal(err)
	}
	_, err = enroll(t.Context(), o)
	refusedAs(t, err, refusal.Denied, "was used already")

	two, err := c.manager.NewToken(t.Context(), api.TokenRequest{Uses: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d", "e"} {
		if _, err := enroll(t.Context(), options(name, two.Token)); err != nil {
			t.Error(err)
		}
	}
	_, err = enroll(t.Context(), options("f", two.Token))
	refusedAs(t, err, refusal.Denied, "it is for 2")
	_, err = c.manager.NewToken(t.Context(), api.TokenRequest{Uses: -2})
	refusedAs(t, err, refusal.Invalid, "uses", "is no number of nodes")
}
