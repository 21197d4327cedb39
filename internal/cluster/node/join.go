// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"weir/internal/api"
	"weir/internal/atomicfile"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
	"weir/internal/refusal"
)

const (
	askTimeout = 15 * time.Second
	maxAnswer  = 1 << 20
)

// errUnreachable is wrapped where the manager could not be asked, as opposed to what
// it answers (*refusal.Error).
var errUnreachable = errors.New("the manager cannot be reached")

// ask makes one request to the manager.
func ask[T any](ctx context.Context, c *http.Client, manager, method, path string, body any) (T, error) {
	var out T
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return out, err
		}
		payload = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+manager+path, payload)
	if err != nil {
		return out, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		var about *url.Error
		if errors.As(err, &about) {
			err = about.Err
		}
		if errors.Is(err, pki.ErrOtherManager) {
			return out, &refusal.Error{Kind: refusal.Denied, Field: "token", Msg: err.Error() + " (" + manager + ")", Remedy: "make one there: weir manager token create"}
		}
		return out, fmt.Errorf("%w at %s: %w", errUnreachable, manager, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return out, fmt.Errorf("%w at %s: %w", errUnreachable, manager, err)
	}
	if resp.StatusCode >= 300 {
		var p api.Problem
		if json.Unmarshal(text, &p) != nil {
			return out, &refusal.Error{Kind: api.KindOf(resp.StatusCode), Msg: fmt.Sprintf("%s answered %s; is it a Weir manager?", manager, resp.Status)}
		}
		return out, p.AsError(resp.StatusCode)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, fmt.Errorf("answer of the manager at %s cannot be read: %w", manager, err)
	}
	return out, nil
}

func httpClient(cfg *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, TLSHandshakeTimeout: 5 * time.Second,
		IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 2}}
}

// identityDir returns the folder of the certificate and its key.
func (o Options) identityDir() string { return IdentityDir(o.Dir) }

// IdentityDir returns that folder, below the folder of a member (Options.Dir).
func IdentityDir(dir string) string { return filepath.Join(dir, "identity") }

// now returns the clock that certificates are checked by.
func (o Options) now() func() time.Time {
	if o.Clock == nil {
		return time.Now
	}
	return o.Clock.Now
}

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
	answer, err := ask[wire.JoinAnswer](ctx, httpClient(pki.Joining(t, now)), o.Manager, http.MethodPost, "/v1/join",
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
	if seed, err := os.ReadFile(path); err == nil && len(seed) == ed25519.SeedSize {
		return ed25519.NewKeyFromSeed(seed), nil
	}
	key, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return key, atomicfile.Write(path, key.Seed(), 0o600)
}
