// SPDX-License-Identifier: Apache-2.0

package warrant

import (
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/base/safepath/safepathtest"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
)

// grantOf returns the grant in a warrant.
func grantOf(t *testing.T, w remote.Warrant) (g wire.Grant) {
	t.Helper()
	e := must[wire.Envelope](t)(wire.Open(w.Sealed))
	if err := e.Read(&g); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestPinnedAuthority: an agent that is taken over puts another authority in its folder,
// and becomes another node. The helper goes by what it has seen first.
func TestPinnedAuthority(t *testing.T) {
	b := newBed(t, "b")
	soon := b.now.Add(time.Minute)
	if err := b.admit(b.granted(order("m-1", "web", "a", "b"), soon)); err != nil {
		t.Fatal(err)
	}
	genuine := b.manager
	own := must[pki.Authority](t)(pki.NewAuthority(b.now))
	b.manager = b.newManager(own)
	b.member(own, "b")
	for range 2 { // with a helper that was there, and with a new one
		if err := b.admit(b.granted(order("m-2", "web", "a", "b"), soon)); err == nil || !strings.Contains(err.Error(), "certificate of the manager") {
			t.Errorf("a grant by another authority: %v", err)
		}
		b.stop()
		b.start(Options{})
	}
	b.manager = genuine
	b.member(b.authority, "c")
	if err := b.admit(b.granted(order("m-3", "web", "a", "c"), soon)); err == nil {
		t.Error("a grant for node c was admitted on node b")
	}
	if err := b.admit(b.granted(order("m-4", "web", "a", "b"), soon)); err != nil {
		t.Error(err)
	}
}

// TestTokenNamesTheAuthority: where weir.yaml names a token, the first authority is that
// of the token, whatever is in the agent's folder.
func TestTokenNamesTheAuthority(t *testing.T) {
	b := newBed(t, "b")
	other := must[pki.Authority](t)(pki.NewAuthority(b.now))
	file := filepath.Join(b.dir, "token")
	for name, x := range map[string]struct {
		token string
		ok    bool
	}{
		"of the cluster": {pki.NewToken(pki.Hash(b.authority.Cert)).String(), true},
		"of another":     {pki.NewToken(pki.Hash(other.Cert)).String(), false},
		"no token":       {"hello", false},
	} {
		b.stop()
		if err := os.RemoveAll(filepath.Join(b.dir, "own")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(x.token), 0o600); err != nil {
			t.Fatal(err)
		}
		b.start(Options{Sources: Sources{TokenFile: file}})
		if err := b.admit(b.granted(order("m-1", "web", "a", "b"), b.now.Add(time.Minute))); (err == nil) != x.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTokenThatOthersMayChange: the token decides which authority is pinned.
func TestTokenThatOthersMayChange(t *testing.T) {
	b := newBed(t, "b")
	id := must[pki.Identity](t)(pki.LoadIdentity(filepath.Join(b.dir, "identity")))
	safepathtest.Refused(t, func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(pki.NewToken(pki.Hash(b.authority.Cert)).String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}, func(path string) error {
		_, _, err := (&Trust{sources: Sources{TokenFile: path}}).first(id)
		return err
	})
}

// TestPinnedDuringARotation: of two authorities that the agent trusts, the former one
// counts for as long as a rotation may take.
func TestPinnedDuringARotation(t *testing.T) {
	b := newBed(t, "b")
	former := b.authority
	next := must[pki.Authority](t)(former.Rotate(b.now))
	id := must[pki.Identity](t)(pki.LoadIdentity(filepath.Join(b.dir, "identity")))
	id.Trusted = []*x509.Certificate{next.Cert, former.Cert}
	if err := id.Save(filepath.Join(b.dir, "identity")); err != nil {
		t.Fatal(err)
	}
	for i, x := range []struct {
		by    pki.Authority
		later time.Duration
		ok    bool
	}{{former, 0, true}, {next, 0, true}, {former, formerAuthority + time.Hour, false}, {next, 0, true}} {
		b.now = b.now.Add(x.later)
		b.manager = b.newManager(x.by)
		if err := b.admit(b.granted(order(fmt.Sprint("m-", i), "web", "a", "b"), b.now.Add(time.Minute))); (err == nil) != x.ok {
			t.Errorf("grant %d: %v", i, err)
		}
	}
}

// TestOldMovesAreForgotten: a week after its end, or if nothing was done of it.
func TestOldMovesAreForgotten(t *testing.T) {
	b := newBed(t, "b")
	soon := b.now.Add(time.Minute)
	for _, id := range []string{"m-ended", "m-idle", "m-open"} {
		if err := b.admit(b.granted(order(id, "web", "a", "b"), soon)); err != nil {
			t.Fatal(err)
		}
	}
	for id, step := range map[string]move.Step{"m-ended": move.Discard, "m-open": move.Restore} {
		if _, err := b.agent.Do(t.Context(), step, order(id, "web", "a", "b")); err != nil {
			t.Fatal(err)
		}
	}
	b.stop()
	b.now = b.now.Add(keepMoves + time.Hour)
	b.start(Options{})
	if got := slices.Sorted(maps.Keys(b.ledger.moves)); !slices.Equal(got, []string{"m-open"}) {
		t.Errorf("remembered: %q", got)
	}
}

// TestRotation: the helper follows the cluster to a new authority by the bridge, obeys
// both while a rotation may take, and the new one alone afterwards.
func TestRotation(t *testing.T) {
	b := newBed(t, "b")
	grant := func(move string, by pki.Identity) error {
		t.Helper()
		b.manager = by
		return b.admit(b.granted(order(move, "web", "a", "b"), b.now.Add(time.Minute)))
	}
	former, before := b.authority, b.manager
	next := must[pki.Authority](t)(former.Rotate(b.now))
	if err := grant("m-1", before); err != nil {
		t.Fatal(err)
	}
	if err := grant("m-2", b.newManager(next)); err != nil {
		t.Fatalf("by the new authority: %v", err)
	}
	if err := grant("m-3", before); err != nil {
		t.Errorf("by the former manager's key, during the rotation: %v", err)
	}
	b.now = b.now.Add(formerAuthority + time.Hour)
	if err := grant("m-4", b.newManager(former)); err == nil {
		t.Error("the former authority's key still counts")
	}
	if err := grant("m-5", before); err == nil {
		t.Error("the former manager's key still counts")
	}
	if err := grant("m-6", b.newManager(next)); err != nil {
		t.Errorf("by the new authority, later: %v", err)
	}
}
