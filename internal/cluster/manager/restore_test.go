// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/cluster/manager/statedir"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// TestRestoreChecksFirst: a snapshot that is not whole, or a folder that is in use,
// changes nothing; the state that is there is put aside only when that is asked for.
func TestRestoreChecksFirst(t *testing.T) {
	b := newBed(t, "a", "b")
	mv := b.order("web", "a", "b")
	s, err := b.Snapshot(t.Context())
	if err != nil || s.Nodes != 2 || s.Moves != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, _, ok := bytes.Cut(s.Data, []byte("weir-manager-snapshot ")); !ok {
		t.Error("no head")
	}
	parent := t.TempDir()
	dir := filepath.Join(parent, "state")
	altered := bytes.Clone(s.Data)
	altered[len(altered)/2] ^= 1
	for name, c := range map[string]struct {
		data  []byte
		words string
	}{
		"nothing":         {nil, "is no snapshot"},
		"another file":    {[]byte("#!/bin/sh\necho\n"), "is no snapshot"},
		"half of it":      {s.Data[:len(s.Data)/2], "checksum does not match"},
		"one bit altered": {altered, "checksum does not match"},
		"a later format":  {bytes.Replace(s.Data, []byte("snapshot 1\n"), []byte("snapshot 2\n"), 1), "has format"},
	} {
		_, err := Restore(bytes.NewReader(c.data), statedir.RestoreOptions{Dir: dir, Name: "x"})
		var refused *refusal.Error
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r, err := Restore(bytes.NewReader(s.Data), statedir.RestoreOptions{Dir: dir, DryRun: true}); err != nil || len(r.Nodes) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if list, err := os.ReadDir(parent); err != nil || len(list) != 0 {
		t.Errorf("%v is there, %v", list, err)
	}
	if _, err := Restore(bytes.NewReader(s.Data), statedir.RestoreOptions{Dir: b.opts.Dir, Force: true}); err == nil || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("over a manager that runs: %v", err)
	}
	if _, err := Restore(bytes.NewReader(s.Data), statedir.RestoreOptions{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	_, err = Restore(bytes.NewReader(s.Data), statedir.RestoreOptions{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("over another state: %v", err)
	}
	r, err := Restore(bytes.NewReader(s.Data), statedir.RestoreOptions{Dir: dir, Force: true})
	if err != nil || r.Aside == "" {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, at := range []string{dir, r.Aside} {
		info, err := os.Stat(filepath.Join(at, "manager.db"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
	again, err := New(Options{Dir: dir, Log: b.log})
	if err != nil {
		t.Fatal(err)
	}
	defer again.db.Close()
	if !again.members.Identity().Public().Equal(b.members.Identity().Public()) || again.members.Len() != 2 || again.moves[mv.ID] == nil || again.moves[mv.ID].State != wire.MoveOrdered {
		t.Errorf("%d members, moves %+v", again.members.Len(), again.moves)
	}
	now, before, tokens := sequenceOf(t, again), sequenceOf(t, b.Manager), again.members.Tokens()
	if again.lastOrder != b.lastOrder || now <= before || len(tokens) != 0 {
		t.Errorf("sequences %d and %d, want %d and more than %d; %d tokens", again.lastOrder, now, b.lastOrder, before, len(tokens))
	}
}

// sequenceOf returns the sequence of a manager's list of members.
func sequenceOf(t *testing.T, m *Manager) uint64 {
	t.Helper()
	answer, err := m.MemberList(0)
	if err != nil {
		t.Fatal(err)
	}
	var list wire.Members
	if err := json.Unmarshal(answer.Members, &list); err != nil {
		t.Fatal(err)
	}
	return list.Sequence
}
