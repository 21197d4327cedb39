// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"time"

	"weir/internal/api"
	"weir/internal/api/rest"
	"weir/internal/cluster/manager/planning"
	"weir/internal/cluster/migrate/registry"
	"weir/internal/cluster/migrate/registry/access"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// The embedded image registry is served where nodes join, to members only: its path
// is imagesPath. A node's engine reaches it by its agent (package node), which shows
// the node's certificate.
const imagesPath = "/v2/"

const (
	imageTime  = 30 * time.Minute   // for one layer to come or go
	tidyAfter  = time.Hour          // between two searches for images that no move needs
	keepImages = 7 * 24 * time.Hour // since they were pushed; the next journey saves sending their layers again
	stillTime  = 10 * time.Minute   // for which what an engine has pushed or asked for may still lack its manifest
)

func (m *Manager) openImages() (err error) {
	if m.opts.Registry == wire.OwnRegistry {
		m.images, err = registry.Open(filepath.Join(m.opts.Dir, "registry"), m.opts.Images)
	}
	return err
}

func (m *Manager) closeImages() error {
	if m.images == nil {
		return nil
	}
	return m.images.Close()
}

// serveImages answers the engine of a member.
func (m *Manager) serveImages(w http.ResponseWriter, r *http.Request, who remote) {
	if m.images == nil {
		rest.WriteRefusal(w, &refusal.Error{Kind: refusal.Unknown, Field: "registry", Msg: "this manager has none of its own", Remedy: "see weir manager status"})
		return
	}
	c, until := http.NewResponseController(w), time.Now().Add(imageTime)
	if err := errors.Join(c.SetReadDeadline(until), c.SetWriteDeadline(until)); err != nil {
		m.log.Warn("image registry", "node", who.node, "err", err)
	}
	m.images.Serve(w, r, registry.Client{Node: who.node, Access: m.access(who.node)})
}

// access returns what a node may do with images now, one entry for each of its moves
// that is under way.
func (m *Manager) access(node string) (list []access.Right) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mv := range m.moves {
		if mv.State.UnderWay() && !mv.DryRun && (mv.From == node || mv.To == node) {
			list = append(list, access.Right{Move: mv.ID, Source: mv.From == node})
		}
	}
	return list
}

// tidyImages removes images that no move needs any more, until ctx ends.
func (m *Manager) tidyImages(ctx context.Context) {
	if m.images == nil {
		return
	}
	tick := time.NewTicker(tidyAfter)
	defer tick.Stop()
	for {
		err := errors.Join(m.images.Expire(ctx, access.MoveRepository, keepImages), m.images.Expire(ctx, access.BaseRepository, keepImages))
		freed := int64(0)
		if err == nil {
			freed, err = m.images.Collect(ctx, stillTime)
		}
		switch {
		case err != nil && ctx.Err() == nil:
			m.log.Warn("image registry cannot be tidied", "err", err)
		case freed > 0:
			m.log.Info("image registry tidied", "freed", planning.Megabytes(float64(freed)))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// imagesView returns what the manager's own registry holds and may hold, nil if there is none.
func (m *Manager) imagesView() *api.Images {
	if m.images == nil {
		return nil
	}
	u := m.images.Usage()
	v := &api.Images{Bytes: uint64(u.Bytes), LimitBytes: uint64(u.Quota.Bytes), NodeLimitBytes: uint64(u.Quota.NodeBytes), KeepFreeBytes: uint64(u.Quota.FreeBytes),
		Nodes: map[string]uint64{}, Uploads: u.Uploads, Refused: u.Refused}
	for node, bytes := range u.Nodes {
		v.Nodes[node] = uint64(bytes)
	}
	return v
}
