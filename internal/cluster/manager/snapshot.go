// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"weir/internal/api"
	"weir/internal/cluster/manager/statedir"
)

// Snapshot implements api.Manager. No change is made meanwhile, so the files and the
// database are of one moment.
func (m *Manager) Snapshot(context.Context) (api.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now().UTC()
	waiting, running := m.openMoves()
	about := statedir.SnapshotManifest{Created: now, Weir: m.opts.Version, Moves: waiting + running}
	var data []byte
	err := m.members.Still(func(nodes []string, authority [sha256.Size]byte) (err error) {
		about.Nodes, about.Authority = nodes, hex.EncodeToString(authority[:])
		data, err = statedir.Pack(m.opts.Dir, m.db, about)
		return err
	})
	if err != nil {
		return api.Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	m.log.Info("snapshot taken", "bytes", len(data), "nodes", len(about.Nodes), "moves", about.Moves)
	return api.Snapshot{Created: now, Nodes: len(about.Nodes), Moves: about.Moves, Data: data}, nil
}

// Restore makes the state of a manager out of a snapshot (statedir.Restore).
//
// Orders of the restored manager count: their sequence and that of the list of members
// are times, so they go on above all that was sent after the snapshot. The tokens of the
// snapshot are revoked, because some may have been used since.
func Restore(in io.Reader, o statedir.RestoreOptions) (statedir.Restored, error) {
	return statedir.Restore(in, o, prove)
}

// prove opens a state as a manager does: the authority's key is that of its certificate,
// the manager's is signed by it, the database can be read. It revokes the tokens.
func prove(dir string) error {
	m, err := New(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return errors.Join(m.members.RevokeAll(), m.db.Close())
}
