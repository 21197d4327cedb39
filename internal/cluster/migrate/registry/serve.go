// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/distribution/distribution/v3"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"

	"weir/internal/cluster/migrate/registry/access"
	"weir/internal/core/bound"
)

const (
	maxManifest = bound.Manifest
	roomEvery   = 16 << 20 // bytes of an upload between two looks at the disk
)

// Client says which node makes a request, and what it may do.
type Client struct {
	Node   string
	Access []access.Right
	All    bool // may do everything
}

// ServeHTTP serves a client who may do everything, within the quota of all.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.Serve(w, q, Client{All: true})
}

// Serve answers a client as far as its rights and the quota go.
func (r *Registry) Serve(w http.ResponseWriter, q *http.Request, c Client) {
	request, ok := access.Parse(q)
	if !ok && !c.All {
		r.deny(w, denied("a node asks for images and layers by their names only"))
		return
	}
	if why := r.permit(q.Context(), request, c); why != nil {
		r.deny(w, why)
		return
	}
	switch {
	case request.Kind == access.Begin:
		r.begin(w, q, request, c)
	case request.Kind == access.Chunk && !request.Reads():
		r.chunk(w, q, request, c)
	case request.Kind == access.Manifest && request.Method == http.MethodPut:
		r.putManifest(w, q, request, c)
	case request.Kind == access.Blob:
		if request.Method == http.MethodHead {
			r.usage.touch(request.Reference) // who pushes an image relies on it from now on
		}
		out := &answer{ResponseWriter: w, count: &r.sent}
		r.app.ServeHTTP(out, q)
		if out.status == http.StatusOK {
			r.usage.show(request.Reference, c.Node)
		}
	default:
		r.app.ServeHTTP(w, q)
	}
}

func (r *Registry) deny(w http.ResponseWriter, why *refusal) {
	if why.status == http.StatusForbidden {
		r.usage.mu.Lock()
		r.usage.refused++
		r.usage.mu.Unlock()
	}
	why.write(w)
}

// permit says why a client may not make a request, nil if it may.
func (r *Registry) permit(ctx context.Context, request access.Request, c Client) *refusal {
	if c.All {
		return nil
	}
	allowed := request.Kind == access.Ping && request.Reads()
	for _, a := range c.Access {
		if !a.Allows(request) {
			continue
		}
		// An object that is asked for by digest has to be part of an image of the move, or
		// the node has had it: or it would learn what the others have.
		if by := request.Digest && request.Reads(); !by || r.holds(ctx, a, request) || request.Method == http.MethodHead && r.usage.shown(request.Reference, c.Node) {
			allowed = true
		} else if !allowed {
			return unknown(request)
		}
	}
	if !allowed {
		return denied("node %s has no move under way that this belongs to: only its source may push an image, only its target may pull it, and no node may delete one", c.Node)
	}
	if request.Kind == access.Chunk {
		r.usage.mu.Lock()
		up := r.usage.uploads[request.Reference]
		r.usage.mu.Unlock()
		if up == nil || up.node != c.Node || up.repository != request.Repository {
			return unknown(request)
		}
	}
	return nil
}

// mayKnow reports whether a client may learn that all of some digests are there: it has had them,
// or they are part of an image of one of its moves. It looks through the images once.
func (r *Registry) mayKnow(ctx context.Context, repository string, ids []string, c Client) bool {
	if c.All {
		return true
	}
	unknown := map[string]bool{}
	for _, id := range ids {
		if !r.usage.shown(id, c.Node) {
			unknown[id] = true
		}
	}
	for _, a := range c.Access {
		if len(unknown) > 0 {
			r.visit(ctx, repository, a, func(id string) { delete(unknown, id) })
		}
	}
	return len(unknown) == 0
}

// holds says whether a digest is part of the move's image in a repository.
func (r *Registry) holds(ctx context.Context, a access.Right, request access.Request) (found bool) {
	r.visit(ctx, request.Repository, a, func(id string) { found = found || id == request.Reference })
	return found
}

// visit calls a function with the digests of the move's images in a repository.
func (r *Registry) visit(ctx context.Context, repository string, a access.Right, each func(id string)) {
	for _, tag := range []string{a.Move, a.Move + access.HintSuffix} {
		var ids []string
		if r.walk(ctx, repository, tag, func(d digest.Digest) { ids = append(ids, d.String()) }) == nil {
			for _, id := range ids {
				each(id)
			}
		}
	}
}

// walk calls visit with the digests that a tag leads to: its manifest, the
// manifests of an index, configurations and layers.
func (r *Registry) walk(ctx context.Context, repository, tag string, visit func(digest.Digest)) error {
	name, err := reference.WithName(repository)
	if err != nil {
		return err
	}
	repo, err := r.images.Repository(ctx, name)
	if err != nil {
		return err
	}
	top, err := repo.Tags(ctx).Get(ctx, tag)
	if err != nil {
		return err
	}
	manifests, err := repo.Manifests(ctx)
	if err != nil {
		return err
	}
	return references(ctx, manifests, top.Digest, visit, 3)
}

// references goes down from a manifest, level by level: an index leads to manifests, and those to
// layers; no deeper. What is named often is visited once.
func references(ctx context.Context, manifests distribution.ManifestService, top digest.Digest, visit func(digest.Digest), depth int) error {
	seen := map[digest.Digest]bool{top: true}
	visit(top)
	for level := []digest.Digest{top}; len(level) > 0; depth-- {
		var next []digest.Digest
		for _, at := range level {
			m, err := manifests.Get(ctx, at)
			if err != nil {
				return err
			}
			for _, d := range m.References() {
				if seen[d.Digest] {
					continue
				}
				seen[d.Digest] = true
				visit(d.Digest)
				if exists, err := manifests.Exists(ctx, d.Digest); err == nil && exists && depth > 0 {
					next = append(next, d.Digest)
				}
			}
		}
		level = next
	}
	return nil
}

// begin begins an upload, if the quota has room for another.
func (r *Registry) begin(w http.ResponseWriter, q *http.Request, request access.Request, c Client) {
	from := q.URL.Query().Get("from")
	if !c.All && from != "" && from != access.BaseRepository && from != access.MoveRepository {
		r.deny(w, denied("layers are mounted from %s and %s only", access.BaseRepository, access.MoveRepository))
		return
	}
	u := r.usage
	u.mu.Lock()
	mine := 0
	for _, up := range u.uploads {
		if up.node == c.Node {
			mine++
		}
	}
	why := u.room(c.Node, 0)
	if why == nil && mine >= u.quota.Uploads && !c.All {
		why = u.refuse(overQuota("node %s has %d uploads under way, and may have no more", c.Node, mine))
	}
	u.mu.Unlock()
	if why != nil {
		why.write(w)
		return
	}
	a := &answer{ResponseWriter: w, count: &r.sent}
	q.Body = http.NoBody // no upload comes with its beginning here
	mount := q.URL.Query().Get("mount")
	if mount != "" && !r.mayKnow(q.Context(), from, []string{mount}, c) {
		q.URL.RawQuery, mount = "", "" // then it uploads the layer, as if it were not there
	}
	u.touch(mount)
	r.app.ServeHTTP(a, q)
	if a.status == http.StatusCreated {
		u.show(mount, c.Node)
	}
	if id := w.Header().Get("Docker-Upload-UUID"); id != "" && a.status == http.StatusAccepted {
		u.mu.Lock()
		u.uploads[id] = &upload{node: c.Node, repository: request.Repository, last: time.Now()}
		u.mu.Unlock()
	}
}

// chunk takes a piece of an upload, its end, or its being given up.
func (r *Registry) chunk(w http.ResponseWriter, q *http.Request, request access.Request, c Client) {
	u := r.usage
	u.mu.Lock()
	up := u.uploads[request.Reference]
	if up == nil { // of a client who may do everything
		up = &upload{node: c.Node, repository: request.Repository}
		u.uploads[request.Reference] = up
	}
	up.busy++
	up.last = time.Now()
	u.mu.Unlock()
	in := &body{ReadCloser: q.Body, count: &r.received, usage: u, upload: up, node: c.Node}
	out := &answer{ResponseWriter: w, count: &r.sent, instead: func() *refusal { return in.refused }}
	q.Body = in
	r.app.ServeHTTP(out, q)
	u.mu.Lock()
	up.busy--
	bytes := up.bytes
	over := in.refused != nil || request.Method != http.MethodPatch && out.status != 0
	if over {
		delete(u.uploads, request.Reference)
	}
	u.mu.Unlock()
	if request.Method == http.MethodPut && out.status == http.StatusCreated {
		u.stored(q.URL.Query().Get("digest"), c.Node, bytes)
		u.show(q.URL.Query().Get("digest"), c.Node)
	} else if over {
		r.dropUpload(context.WithoutCancel(q.Context()), request.Repository, request.Reference)
	}
}

// dropUpload removes what has come of an upload.
func (r *Registry) dropUpload(ctx context.Context, repository, id string) {
	_ = r.driver.Delete(ctx, "/docker/registry/v2/repositories/"+repository+"/_uploads/"+id) // mostly it has gone
}

// putManifest stores a manifest, by which an image is there.
func (r *Registry) putManifest(w http.ResponseWriter, q *http.Request, request access.Request, c Client) {
	text, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxManifest))
	if err != nil {
		(&refusal{http.StatusBadRequest, "MANIFEST_INVALID", fmt.Sprintf("a manifest has at most %d bytes: %v", maxManifest, err)}).write(w)
		return
	}
	if err := bound.Lists("manifest", text, access.MaxValues, access.MaxReferences); err != nil {
		(&refusal{http.StatusBadRequest, "MANIFEST_INVALID", err.Error()}).write(w)
		return
	}
	id := fmt.Sprintf("sha256:%x", sha256.Sum256(text))
	u := r.usage
	u.mu.Lock()
	why := u.room(c.Node, int64(len(text)))
	u.mu.Unlock()
	r.tagging.Lock()
	defer r.tagging.Unlock()
	if why == nil && !request.Digest && !c.All {
		why = r.tooMany(q.Context(), request)
	}
	if why == nil {
		why = r.foreign(q, request.Repository, text, c)
	}
	if why != nil {
		why.write(w)
		return
	}
	u.stored(id, c.Node, int64(len(text))) // before it is there, so that it is not collected meanwhile
	q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	out := &answer{ResponseWriter: w, count: &r.sent}
	r.app.ServeHTTP(out, q)
	if out.status == http.StatusCreated {
		u.show(id, c.Node)
	}
	if out.status != http.StatusCreated {
		u.mu.Lock()
		if _, err := r.images.BlobStatter().Stat(q.Context(), digest.Digest(id)); err != nil {
			u.gone(id)
		}
		u.mu.Unlock()
	}
}

// foreign refuses a manifest that names what its client may not know of: by its own image the
// client, or its target, would be given it.
func (r *Registry) foreign(q *http.Request, repository string, text []byte, c Client) *refusal {
	if c.All {
		return nil
	}
	m, _, err := distribution.UnmarshalManifest(q.Header.Get("Content-Type"), text)
	if err != nil {
		return nil // the registry says what is wrong with it
	}
	var ids []string
	for _, d := range m.References() {
		ids = append(ids, d.Digest.String())
	}
	if !r.mayKnow(q.Context(), repository, ids, c) {
		return &refusal{http.StatusBadRequest, "MANIFEST_BLOB_UNKNOWN", "manifest references a manifest or blob unknown to registry"}
	}
	return nil
}

// tooMany says why there cannot be another tag, nil if there can. The lock is held.
func (r *Registry) tooMany(ctx context.Context, request access.Request) *refusal {
	all, known := 0, false
	for _, repository := range []string{access.BaseRepository, access.MoveRepository} {
		list, err := r.tags(ctx, repository)
		if err != nil {
			return full("the manager's image registry cannot list its images: %v", err)
		}
		for _, tag := range list {
			known = known || repository == request.Repository && tag == request.Reference
		}
		all += len(list)
	}
	if known || all < r.usage.quota.Tags {
		return nil
	}
	return full("the manager's image registry holds %d images, and may hold no more", all)
}

// body counts what comes in, and ends when it is over the quota.
type body struct {
	io.ReadCloser
	count interface{ Add(int64) int64 }

	usage   *usage
	upload  *upload
	node    string
	since   int64 // bytes since the last look
	refused *refusal
}

func (b *body) Read(p []byte) (int, error) {
	if b.refused != nil {
		return 0, b.refused
	}
	n, err := b.ReadCloser.Read(p)
	b.count.Add(int64(n))
	b.usage.mu.Lock()
	defer b.usage.mu.Unlock()
	b.upload.bytes += int64(n)
	b.upload.last = time.Now()
	if b.since += int64(n); b.since >= roomEvery || err != nil {
		b.since = 0
		b.refused = b.usage.room(b.node, 0)
	} else if b.usage.nodes[b.node]+b.upload.bytes > b.usage.quota.NodeBytes && b.node != "" {
		b.refused = b.usage.room(b.node, 0)
	}
	if b.refused != nil {
		return 0, b.refused
	}
	return n, err
}

// answer counts what goes out, and says something else if need be.
type answer struct {
	http.ResponseWriter
	count   interface{ Add(int64) int64 }
	status  int
	instead func() *refusal
	dropped bool
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.dropped {
		return
	}
	if a.instead != nil {
		if why := a.instead(); why != nil {
			a.dropped, a.status = true, why.status
			why.write(a.ResponseWriter)
			return
		}
	}
	if status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.dropped {
		return len(p), nil
	}
	n, err := a.ResponseWriter.Write(p)
	a.count.Add(int64(n))
	return n, err
}

// ReadFrom keeps the kernel's own copying from file to socket.
func (a *answer) ReadFrom(from io.Reader) (int64, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.dropped {
		return io.Copy(io.Discard, from)
	}
	n, err := io.Copy(a.ResponseWriter, from)
	a.count.Add(n)
	return n, err
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
