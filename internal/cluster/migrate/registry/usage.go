// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/base/statefile"
)

// ownersFile remembers who was the first to push what.
const ownersFile = "owners.json"

// saveAfter is how long the usage waits before it writes who has pushed what to
// ownersFile. After a crash, a digest that was not written there has no owner.
const saveAfter = 5 * time.Second

// usage counts the bytes in the registry, and says which node pushed them.
type usage struct {
	dir   string
	quota Quota

	mu      sync.Mutex
	blobs   map[string]*stored // by digest
	nodes   map[string]int64   // bytes, by node
	total   int64
	uploads map[string]*upload
	had     map[string]map[string]bool // nodes that have had a digest, beside the one that pushed it first
	touched map[string]time.Time       // when a client that pushes last asked for a digest
	refused uint64
	timer   *time.Timer // saves the owners; nil = they are saved
}

// stored is a layer, a configuration or a manifest.
type stored struct {
	Node  string `json:"node"` // the first that pushed it; "" = not on record
	Bytes int64  `json:"bytes"`
}

// upload is an upload under way.
type upload struct {
	node, repository string
	bytes            int64
	last             time.Time
	busy             int // requests at it
}

// openUsage counts the bytes that are in a folder already.
func openUsage(dir string, q Quota) (*usage, error) {
	u := &usage{dir: dir, quota: q.filled(), blobs: map[string]*stored{}, nodes: map[string]int64{}, uploads: map[string]*upload{}, touched: map[string]time.Time{}, had: map[string]map[string]bool{}}
	owners := map[string]*stored{}
	if statefile.Read(filepath.Join(dir, ownersFile), &owners) != nil {
		owners = nil // a file that cannot be read costs the owners, not the images
	}
	err := filepath.WalkDir(filepath.Join(dir, "docker/registry/v2/blobs"), func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.Name() != "data" {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		parts := strings.Split(path, string(filepath.Separator)) // .../sha256/ab/abcd.../data
		digest := parts[len(parts)-4] + ":" + parts[len(parts)-2]
		node := ""
		if owner := owners[digest]; owner != nil {
			node = owner.Node
		}
		u.keep(digest, node, info.Size())
		return nil
	})
	return u, err
}

// keep counts the bytes of a digest, once. The lock is held.
func (u *usage) keep(digest, node string, bytes int64) {
	if u.blobs[digest] != nil {
		return
	}
	u.blobs[digest] = &stored{node, bytes}
	u.nodes[node] += bytes
	u.total += bytes
}

// stored counts what was stored just now, and has the owners saved.
func (u *usage) stored(digest, node string, bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.touched[digest] = time.Now()
	u.keep(digest, node, bytes)
	if u.timer == nil {
		u.timer = time.AfterFunc(saveAfter, func() { _ = u.save() })
	}
}

// gone takes what was removed off the count. The lock is held.
func (u *usage) gone(digest string) (freed int64) {
	s := u.blobs[digest]
	if s == nil {
		return 0
	}
	delete(u.blobs, digest)
	delete(u.touched, digest)
	delete(u.had, digest)
	u.total -= s.Bytes
	if u.nodes[s.Node] -= s.Bytes; u.nodes[s.Node] <= 0 {
		delete(u.nodes, s.Node)
	}
	return s.Bytes
}

// save writes the owners down.
func (u *usage) save() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer == nil {
		return nil
	}
	u.timer.Stop()
	u.timer = nil
	return statefile.Write(filepath.Join(u.dir, ownersFile), u.blobs)
}

// touch notes that a client that pushes relies on a digest.
func (u *usage) touch(digest string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.blobs[digest] != nil {
		u.touched[digest] = time.Now()
	}
}

// show notes that a node has had what a digest names. It is not saved: after a restart of the
// manager a node sends what another was the first to push once more.
func (u *usage) show(digest, node string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.blobs[digest]; s == nil || s.Node == node {
		return
	}
	if u.had[digest] == nil {
		u.had[digest] = map[string]bool{}
	}
	u.had[digest][node] = true
}

// shown reports whether a node has had what a digest names.
func (u *usage) shown(digest, node string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.blobs[digest]
	return s != nil && (s.Node == node || u.had[digest][node])
}

// room says why a node may not store more bytes, nil if it may. The lock is held.
func (u *usage) room(node string, more int64) *refusal {
	own, all := u.nodes[node]+more, u.total+more
	for _, up := range u.uploads {
		if all += up.bytes; up.node == node {
			own += up.bytes
		}
	}
	switch {
	case node != "" && own > u.quota.NodeBytes:
		return u.refuse(overQuota("node %s has all of its %s in the manager's image registry; they are freed a week after their moves, or raise manager.images.per_node", node, size(u.quota.NodeBytes)))
	case all > u.quota.Bytes:
		return u.refuse(full("the manager's image registry has all of its %s; raise manager.images.total", size(u.quota.Bytes)))
	}
	var st unix.Statfs_t
	if err := unix.Statfs(u.dir, &st); err == nil && int64(st.Bavail)*st.Bsize-more < u.quota.FreeBytes {
		return u.refuse(full("the disk of the manager's image registry has %s free, of which manager.images.keep_free keeps %s", size(int64(st.Bavail)*st.Bsize), size(u.quota.FreeBytes)))
	}
	return nil
}

// refuse counts a refusal. The lock is held.
func (u *usage) refuse(r *refusal) *refusal {
	u.refused++
	return r
}

// Usage says how much a registry holds, and how much it may.
type Usage struct {
	Bytes   int64            // stored
	Nodes   map[string]int64 // bytes, by the node that pushed them first; "" = not on record
	Uploads int              // under way
	Refused uint64           // requests since the start: without right, or over the quota
	Quota   Quota
}

func (u *usage) now() Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return Usage{Bytes: u.total, Nodes: maps.Clone(u.nodes), Uploads: len(u.uploads), Refused: u.refused, Quota: u.quota}
}
