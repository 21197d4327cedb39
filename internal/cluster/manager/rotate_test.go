// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
)

func open(t *testing.T, dir string) *Manager {
	t.Helper()
	m, err := New(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.store.close() })
	return m
}

// TestRotationIsInterrupted: a manager that is killed at any moment of a rotation has
// either not begun it or goes on with it.
func TestRotationIsInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manager")
	if _, err := Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	m := open(t, dir)
	first, own := m.authority, m.identity()

	// Written down, and the new authority was not.
	m.trust.Rotation = &rotation{Started: time.Now(), Former: first.Cert.Raw, ManagerKey: own.Public()}
	c := &change{}
	m.nextSequence(c)
	if err := m.write(c); err != nil {
		t.Fatal(err)
	}
	m.store.close()
	m = open(t, dir)
	if m.trust.Rotation != nil || !m.authority.Cert.Equal(first.Cert) || !m.identity().Key.Equal(own.Key) {
		t.Errorf("rotation %+v, which did not begin", m.trust.Rotation)
	}

	// The new authority is in its file, and the manager's certificate is the former one.
	if _, err := m.RotateAuthority(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := m.identity()
	if err := own.Save(m.ownDir()); err != nil {
		t.Fatal(err)
	}
	m.store.close()
	m = open(t, dir)
	id := m.identity()
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
	m.store.close()
	m = open(t, dir)
	if public := m.identity().Cert.PublicKey; !m.authority.Issued(m.identity().Cert) || !m.identity().Public().Equal(public) {
		t.Error("the certificate is not for the manager's key")
	}

	// And it comes to its end.
	m.endRotation(m.trust.Rotation.Started.Add(settleTime - time.Second))
	if m.trust.Rotation == nil {
		t.Error("ended before orders of before were settled")
	}
	m.endRotation(m.trust.Rotation.Started.Add(settleTime))
	if m.trust.Rotation != nil || len(m.identity().Trusted) != 1 {
		t.Errorf("rotation %+v, %d trusted", m.trust.Rotation, len(m.identity().Trusted))
	}
	if again, err := pki.LoadIdentity(m.ownDir()); err != nil || len(again.Trusted) != 1 {
		t.Errorf("%d trusted, %v", len(again.Trusted), err)
	}
}

// TestRotationWaits for members without a new certificate and for moves of before, but
// not for ever.
func TestRotationWaits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manager")
	if _, err := Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	m := open(t, dir)
	m.members["a"] = &member{Name: "a"}
	if _, err := m.RotateAuthority(t.Context()); err != nil {
		t.Fatal(err)
	}
	begun := m.trust.Rotation.Started
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
			m.moves["m"] = &move{State: wire.MoveOrdered, Created: begun.Add(-time.Second)}
		}, false},
		{settleTime, "one of after is under way", func() { m.moves["m"].Created = begun.Add(time.Second) }, true},
	} {
		step.do()
		if m.endRotation(begun.Add(step.after)); (m.trust.Rotation == nil) != step.ended {
			t.Errorf("%v after its beginning, %s: ended %v", step.after, step.what, m.trust.Rotation == nil)
		}
	}
	if _, err := m.RotateAuthority(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m.endRotation(m.trust.Rotation.Started.Add(graceTime)); m.trust.Rotation != nil {
		t.Error("it waits for ever")
	}
}
