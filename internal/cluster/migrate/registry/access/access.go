// SPDX-License-Identifier: Apache-2.0

// Package access says what the nodes of a cluster may do with the image registry: whose
// repositories and tags there are, what a request asks for, and what a move that is under way
// allows. The registry itself, which only the manager has, is package registry; a node uses this
// one.
package access

import (
	"net/http"
	"regexp"
)

// The repositories that nodes can reach: images of containers, and the layers that
// moves commit. A tag is the id of the move that it belongs to.
const (
	BaseRepository = "weir-base"
	MoveRepository = "weir-move"
)

// HintSuffix ends the tag by which a target pushes an image that it has. By this tag its
// engine learns the layers that the registry has, and does not pull them again.
const HintSuffix = "-target"

// Kind says what a request is about.
type Kind int

// The kinds. Catalogs and lists of tags are none: they are refused.
const (
	Ping     Kind = iota + 1
	Manifest      // by tag or digest
	Blob          // a layer or a configuration, by digest
	Begin         // of an upload
	Chunk         // of an upload under way
)

// Request is a request of the OCI distribution specification, as far as rights go.
type Request struct {
	Kind       Kind
	Method     string
	Repository string
	Reference  string // tag, digest, or id of an upload
	Digest     bool   // the reference is a digest
}

const (
	namePattern   = `([a-z0-9]+(?:[._/-][a-z0-9]+)*)`
	digestPattern = `sha256:[0-9a-f]{64}`
)

var routes = []struct {
	kind Kind
	path *regexp.Regexp
}{
	{Ping, regexp.MustCompile(`^/v2/$`)},
	{Manifest, regexp.MustCompile(`^/v2/` + namePattern + `/manifests/(` + digestPattern + `|[A-Za-z0-9_][A-Za-z0-9._-]{0,127})$`)},
	{Blob, regexp.MustCompile(`^/v2/` + namePattern + `/blobs/(` + digestPattern + `)$`)},
	{Begin, regexp.MustCompile(`^/v2/` + namePattern + `/blobs/uploads/?$`)},
	{Chunk, regexp.MustCompile(`^/v2/` + namePattern + `/blobs/uploads/([A-Za-z0-9=_-]{1,64})$`)},
}

// Parse says what a request asks for. Paths that are not exactly those of the
// specification are not understood, so that no two readings of one can differ.
func Parse(q *http.Request) (r Request, ok bool) {
	if q.URL.RawPath != "" {
		return r, false
	}
	for _, route := range routes {
		if m := route.path.FindStringSubmatch(q.URL.Path); m != nil {
			r = Request{Kind: route.kind, Method: q.Method}
			if len(m) > 1 {
				r.Repository = m[1]
			}
			if len(m) > 2 {
				r.Reference = m[2]
			}
			r.Digest = r.Kind == Blob || len(r.Reference) == len("sha256:")+64 && r.Reference[:7] == "sha256:"
			return r, true
		}
	}
	return r, false
}

// Reads reports whether the request changes nothing.
func (r Request) Reads() bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// Right is what a node may do for one move that is under way: the source pushes,
// the target pulls.
type Right struct {
	Move   string
	Source bool // else the target
}

// Allows says whether a request is within the right, as far as its path tells. That a
// digest belongs to the move's image, and an upload to the node, is for the registry
// to see. No client may delete an image.
func (a Right) Allows(r Request) bool {
	if r.Kind == Ping {
		return r.Reads()
	}
	if r.Repository != BaseRepository && r.Repository != MoveRepository {
		return false
	}
	pushes := a.Source || r.Repository == BaseRepository
	switch r.Kind {
	case Manifest:
		tagged := r.Digest || r.Reference == a.Move || !a.Source && r.Repository == BaseRepository && r.Reference == a.Move+HintSuffix
		writes := r.Method == http.MethodPut && pushes && (a.Source || r.Digest || r.Reference != a.Move)
		return tagged && (r.Reads() || writes)
	case Blob:
		return r.Method == http.MethodHead || r.Method == http.MethodGet && !a.Source
	case Begin:
		return r.Method == http.MethodPost && pushes
	case Chunk:
		return pushes && (r.Reads() || r.Method == http.MethodPatch || r.Method == http.MethodPut || r.Method == http.MethodDelete)
	}
	return false
}
