// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"fmt"
	"net/http"

	"weir/internal/cluster/migrate/registry/access"
)

// Quota bounds what nodes may fill the registry with. 0 = the default.
type Quota struct {
	NodeBytes int64 // of layers that one node was the first to push
	Bytes     int64 // of all
	FreeBytes int64 // of the disk, that stay free
	Uploads   int   // of one node at once
	Tags      int   // images of all nodes
}

// DefaultQuota is enough for some hundred images, and for an engine's pushes at once:
// Docker sends five layers of an image at a time.
var DefaultQuota = Quota{NodeBytes: 20e9, Bytes: 100e9, FreeBytes: 1e9, Uploads: 20, Tags: 20_000}

// filled returns the quota with defaults in the place of zeros.
func (q Quota) filled() Quota {
	put := func(value *int64, or int64) {
		if *value == 0 {
			*value = or
		}
	}
	put(&q.NodeBytes, DefaultQuota.NodeBytes)
	put(&q.Bytes, DefaultQuota.Bytes)
	put(&q.FreeBytes, DefaultQuota.FreeBytes)
	if q.Uploads == 0 {
		q.Uploads = DefaultQuota.Uploads
	}
	if q.Tags == 0 {
		q.Tags = DefaultQuota.Tags
	}
	return q
}

// refusal is an answer that an engine shows to its user.
type refusal struct {
	status int
	code   string // of the specification
	msg    string
}

func (r *refusal) Error() string { return r.msg }

func (r *refusal) write(w http.ResponseWriter) {
	type one struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	text, _ := json.Marshal(map[string][]one{"errors": {{r.code, r.msg}}}) // strings always can be
	w.Header().Set("Content-Type", "application/json")
	w.Header().Del("Content-Length")
	w.WriteHeader(r.status)
	_, _ = w.Write(text) // a client that has gone away learns nothing
}

func denied(format string, args ...any) *refusal {
	return &refusal{http.StatusForbidden, "DENIED", fmt.Sprintf(format, args...)}
}

// overQuota is the node's own fault, full is not. An engine tries the latter again.
func overQuota(format string, args ...any) *refusal {
	return &refusal{http.StatusTooManyRequests, "TOOMANYREQUESTS", fmt.Sprintf(format, args...)}
}

func full(format string, args ...any) *refusal {
	return &refusal{http.StatusInsufficientStorage, "DENIED", fmt.Sprintf(format, args...)}
}

// unknown returns the answer about an object that is not there, or that the client
// may not see.
func unknown(r access.Request) *refusal {
	switch r.Kind {
	case access.Manifest:
		return &refusal{http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown"}
	case access.Chunk:
		return &refusal{http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry"}
	default:
		return &refusal{http.StatusNotFound, "BLOB_UNKNOWN", "blob unknown to registry"}
	}
}
