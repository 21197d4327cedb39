// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"weir/internal/cluster/manager/statedir"
	"weir/internal/cluster/pki"
)

func open(t *testing.T, dir string) *Members {
	t.Helper()
	authority, err := pki.LoadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	db, err := statedir.Open(dir, Buckets...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	m, err := Open(dir, authority, db, clockwork.NewRealClock(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRotationIsInterrupted: a manager that is killed at any moment of a rotation has
// either not begun it or goes on with it.
func TestRotationIsInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manager")
	if _, err := Create(dir, 1, time.Now()); err != nil {
		t.Fatal(err)
	}
	m := open(t, dir)
	first, own := m.authority, m.Identity()

	// Written down, and the new authority was not.
	m.trust.Rotation = &rotation{Started: time.Now(), Former: first.Cert.Raw, ManagerKey: own.Public()}
	tx := &statedir.Transaction{}
	m.sequence(tx)
	if err := m.write(tx); err != nil {
		t.Fatal(err)
	}
	m.db.Close()
	m = open(t, dir)
	if m.trust.Rotation != nil || !m.authority.Cert.Equal(first.Cert) || !m.Identity().Key.Equal(own.Key) {
		t.Errorf("rotation %+v, which did not begin", m.trust.Rotation)
	}

	// The new authority is in its file, and the manager's certificate is the former one.
	if _, err := m.Rotate(); err != nil {
		t.Fatal(err)
	}
	second := m.Identity()
	if err := own.Save(m.ownDir()); err != nil {
		t.Fatal(err)
	}
	m.db.Close()
	m = open(t, dir)
	id := m.Identity()
	if m.trust.Rotation == nil || !m.authority.Issued(id.Cert) || id.Key.Equal(own.Key) || len(id.Trusted) != 2 || len(id.Bridges) != 2 {
		t.Errorf("rotation %+v, %d trusted, %d bridges", m.trust.Rotation, len(id.Trusted), len(id.Bridges))
	}
	if !m.trust.Rotation.ManagerKey.Equal(own.Public()) {
		t.Error("what the manager signed before does not count any more")
	}

	// The key is new, its certificate is that of another key.
	mixed := second
	mixed.Key = id.Key
	if err := mixed.Save(m.ownDir()); err != nil {
		t.Fatal(err)
	}
	m.db.Close()
	m = open(t, dir)
	if public := m.Identity().Cert.PublicKey; !m.authority.Issued(m.Identity().Cert) || !m.Identity().Public().Equal(public) {
		t.Error("the certificate is not for the manager's key")
	}

	// And it comes to its end.
	m.endRotation(m.trust.Rotation.Started.Add(settleTime-time.Second), false)
	if m.trust.Rotation == nil {
		t.Error("ended before orders of before were settled")
	}
	m.endRotation(m.trust.Rotation.Started.Add(settleTime), false)
	if m.trust.Rotation != nil || len(m.Identity().Trusted) != 1 {
		t.Errorf("rotation %+v, %d trusted", m.trust.Rotation, len(m.Identity().Trusted))
	}
	if again, err := pki.LoadIdentity(m.ownDir()); err != nil || len(again.Trusted) != 1 {
		t.Errorf("%d trusted, %v", len(again.Trusted), err)
	}
}

// TestRotationWaits for members without a new certificate and for moves of before, but
// not for ever.
func TestRotationWaits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manager")
	if _, err := Create(dir, 1, time.Now()); err != nil {
		t.Fatal(err)
	}
	m := open(t, dir)
	m.members["a"] = &member{Name: "a"}
	if _, err := m.Rotate(); err != nil {
		t.Fatal(err)
	}
	begun, unsettled := m.trust.Rotation.Started, false
	for _, step := range []struct {
		after time.Duration
		what  string
		do    func()
		ended bool
	}{
		{settleTime, "a has no new certificate", func() {}, false},
		{graceTime - time.Second, "a has still none", func() {}, false},
		{settleTime, "a move of before is under way", func() {
			hash := pki.Hash(m.authority.Cert)
			m.certificates["a"] = &certificate{Authority: hash[:]}
			unsettled = true
		}, false},
		{settleTime, "one of after is under way", func() { unsettled = false }, true},
	} {
		step.do()
		if m.endRotation(begun.Add(step.after), unsettled); (m.trust.Rotation == nil) != step.ended {
			t.Errorf("%v after its beginning, %s: ended %v", step.after, step.what, m.trust.Rotation == nil)
		}
	}
	if _, err := m.Rotate(); err != nil {
		t.Fatal(err)
	}
	if m.endRotation(m.trust.Rotation.Started.Add(graceTime), false); m.trust.Rotation != nil {
		t.Error("it waits for ever")
	}
}
