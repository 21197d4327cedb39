// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// Enroll makes this machine a member if it is none yet. The error is a *refusal.Error if
// that will not get better by waiting.
func Enroll(ctx context.Context, o Options) (pki.Identity, error) {
	id, err := pki.LoadIdentity(o.identityDir())
	if err == nil {
		if o.Name != "" && o.Name != id.Name() {
			return id, &refusal.Error{Kind: refusal.Conflict, Field: "cluster.name", Value: o.Name, Msg: "this machine has joined as " + id.Name(),
				Remedy: "leave the name out, or remove " + o.identityDir() + " and join again with a new token"}
		}
		return id, nil
	}
	if !errors.Is(err, pki.ErrNone) {
		return id, err
	}
	if o.Token == "" {
		return id, &refusal.Error{Kind: refusal.Denied, Field: "cluster.token", Msg: "is missing: this machine has not joined a cluster yet", Remedy: "make one on the manager: weir manager token create"}
	}
	t, err := pki.ParseToken(o.Token)
	if err != nil {
		return id, &refusal.Error{Kind: refusal.Invalid, Field: "cluster.token", Msg: err.Error()}
	}
	if err := wire.CheckNode(o.Name); err != nil {
		return id, &refusal.Error{Kind: refusal.Invalid, Field: "cluster.name", Msg: err.Error()}
	}
	key, err := joiningKey(o.Dir)
	if err != nil {
		return id, err
	}
	request, err := pki.Request(key)
	if err != nil {
		return id, err
	}
	now := o.now()
	answer, err := Ask[wire.JoinAnswer](ctx, ManagerAt(o.Manager, pki.Joining(t, now)), http.MethodPost, "/v1/join",
		wire.JoinRequest{Token: t.ID, Secret: t.Secret, Node: o.Name, Request: request})
	if err != nil {
		return id, err
	}
	id.Key = key
	// The manager was checked by the token's authority, or by one that took its place.
	if id, err = id.Renewed(answer.Certificate, answer.Authority, now()); err != nil {
		return id, fmt.Errorf("certificate that the manager gave: %w", err)
	}
	if err := id.Save(o.identityDir()); err != nil {
		return id, err
	}
	return id, os.Remove(filepath.Join(o.Dir, joiningKeyFile))
}

// joiningKeyFile has the key of a node that asks to join, until it has a certificate: if
// the answer is lost, the manager knows the node by its key when it asks again, and a
// token for one node still counts for it.
const joiningKeyFile = "joining.key"

// joiningKey returns the key of that file, which is made if it is missing.
func joiningKey(dir string) (ed25519.PrivateKey, error) {
	path := filepath.Join(dir, joiningKeyFile)
	if seed, err := safepath.ReadFile(path); err == nil && len(seed) == ed25519.SeedSize {
		return ed25519.NewKeyFromSeed(seed), nil
	}
	key, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	if err := safepath.Folder(dir, 0o700); err != nil {
		return nil, err
	}
	return key, atomicfile.Write(path, key.Seed(), 0o600)
}

// Lasting reports whether an error of Enroll is a refusal that waiting does not cure: the
// manager has answered, and not that it failed or has too much to do.
func Lasting(err error) bool {
	return refusal.Of(err) != nil && !refusal.Is(err, refusal.Failed, refusal.TooMany)
}
