// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Registry serves a folder.
type Registry struct {
	dir string
	// changing is held by readers while a manifest is written, and by Collect.
	changing sync.RWMutex
	received atomic.Int64
	sent     atomic.Int64
}

// Open opens the folder of a registry and makes it if it is missing. What was
// arriving when the last one ended is removed.
func Open(dir string) (*Registry, error) {
	if err := os.RemoveAll(filepath.Join(dir, "uploads")); err != nil {
		return nil, err
	}
	for _, folder := range []string{"blobs/sha256", "manifests/sha256", "repositories", "uploads"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return nil, err
		}
	}
	return &Registry{dir: dir}, nil
}

// Traffic is how many bytes of layers and configurations have come in and gone out.
func (r *Registry) Traffic() (received, sent int64) { return r.received.Load(), r.sent.Load() }

const (
	namePattern   = `[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*`
	digestPattern = `sha256:[0-9a-f]{64}`
	tagPattern    = `[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}`
)

var (
	uploadsPath   = regexp.MustCompile(`^/v2/(` + namePattern + `)/blobs/uploads/?$`)
	uploadPath    = regexp.MustCompile(`^/v2/(` + namePattern + `)/blobs/uploads/([0-9a-z]+)$`)
	blobPath      = regexp.MustCompile(`^/v2/(` + namePattern + `)/blobs/(` + digestPattern + `)$`)
	manifestPath  = regexp.MustCompile(`^/v2/(` + namePattern + `)/manifests/(` + digestPattern + `|` + tagPattern + `)$`)
	digestOnly    = regexp.MustCompile(`^` + digestPattern + `$`)
	manifestTypes = regexp.MustCompile(`^application/vnd\.(docker\.distribution\.manifest|oci\.image)\.`)
)

// ServeHTTP implements http.Handler.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Docker-Distribution-API-Version", "registry/2.0")
	var err error
	path := q.URL.Path
	switch {
	case path == "/v2/" || path == "/v2":
		w.WriteHeader(http.StatusOK)
	case uploadsPath.MatchString(path):
		err = r.startUpload(w, q, uploadsPath.FindStringSubmatch(path)[1])
	case uploadPath.MatchString(path):
		m := uploadPath.FindStringSubmatch(path)
		err = r.upload(w, q, m[1], m[2])
	case blobPath.MatchString(path):
		err = r.blob(w, q, blobPath.FindStringSubmatch(path)[2])
	case manifestPath.MatchString(path):
		m := manifestPath.FindStringSubmatch(path)
		err = r.manifest(w, q, m[1], m[2])
	default:
		err = &failure{http.StatusNotFound, "NAME_UNKNOWN", "no such address: " + path}
	}
	if err != nil {
		report(w, err)
	}
}

// failure is an error as the specification has it.
type failure struct {
	status int
	code   string
	text   string
}

func (f *failure) Error() string { return f.text }

var (
	errMethod       = &failure{http.StatusMethodNotAllowed, "UNSUPPORTED", "not possible here"}
	errBlobUnknown  = &failure{http.StatusNotFound, "BLOB_UNKNOWN", "no such layer"}
	errManifest     = &failure{http.StatusNotFound, "MANIFEST_UNKNOWN", "no such manifest"}
	errUpload       = &failure{http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "no such upload"}
	errDigest       = &failure{http.StatusBadRequest, "DIGEST_INVALID", "the content has another digest"}
	errDigestFormat = &failure{http.StatusBadRequest, "DIGEST_INVALID", "a digest is sha256: and 64 hexadecimal digits"}
)

func report(w http.ResponseWriter, err error) {
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{http.StatusInternalServerError, "UNKNOWN", err.Error()}
		if errors.Is(err, fs.ErrNotExist) {
			f = errBlobUnknown
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	// A client that has gone away need not be told.
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]string{{"code": f.code, "message": f.text}}})
}

func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

func (r *Registry) blobFile(digest string) string {
	return filepath.Join(r.dir, "blobs/sha256", hexOf(digest))
}

func (r *Registry) manifestFile(digest string) string {
	return filepath.Join(r.dir, "manifests/sha256", hexOf(digest))
}

func (r *Registry) tagFile(name, tag string) string {
	return filepath.Join(r.dir, "repositories", name, "tags", tag)
}

// writeFile writes beside and renames.
func (r *Registry) writeFile(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Join(r.dir, "uploads"), "f")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// manifestContent is what of a manifest says which other files it needs.
type manifestContent struct {
	MediaType string       `json:"mediaType"`
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
	Manifests []descriptor `json:"manifests"`
}

type descriptor struct {
	Digest string `json:"digest"`
}

// Collect removes layers that no manifest names and that are older than age, and
// returns how many bytes that freed. Who is about to push a manifest for layers that
// are there already has that long.
func (r *Registry) Collect(age time.Duration) (freed int64, err error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	used := map[string]bool{}
	manifests, err := filepath.Glob(filepath.Join(r.dir, "manifests/sha256/*"))
	if err != nil {
		return 0, err
	}
	for _, file := range manifests {
		if strings.HasSuffix(file, ".type") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		var m manifestContent
		if err := json.Unmarshal(data, &m); err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		used[hexOf(m.Config.Digest)] = true
		for _, l := range m.Layers {
			used[hexOf(l.Digest)] = true
		}
	}
	blobs, err := os.ReadDir(filepath.Join(r.dir, "blobs/sha256"))
	if err != nil {
		return 0, err
	}
	for _, b := range blobs {
		info, err := b.Info()
		if err != nil || used[b.Name()] || time.Since(info.ModTime()) < age {
			continue
		}
		if err := os.Remove(filepath.Join(r.dir, "blobs/sha256", b.Name())); err != nil {
			return freed, err
		}
		freed += info.Size()
	}
	return freed, nil
}
