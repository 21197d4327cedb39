// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxManifest bounds a manifest in bytes, as the specification suggests.
const maxManifest = 4 << 20

// manifest serves a manifest by its digest or by a tag.
func (r *Registry) manifest(w http.ResponseWriter, q *http.Request, name, reference string) error {
	switch q.Method {
	case http.MethodGet, http.MethodHead:
		return r.getManifest(w, q, name, reference)
	case http.MethodPut:
		return r.putManifest(w, q, name, reference)
	case http.MethodDelete:
		return r.deleteManifest(w, name, reference)
	}
	return errMethod
}

// digestOf is what a reference leads to.
func (r *Registry) digestOf(name, reference string) (string, error) {
	if digestOnly.MatchString(reference) {
		return reference, nil
	}
	text, err := os.ReadFile(r.tagFile(name, reference))
	if errors.Is(err, fs.ErrNotExist) {
		return "", errManifest
	}
	return string(text), err
}

func (r *Registry) getManifest(w http.ResponseWriter, q *http.Request, name, reference string) error {
	digest, err := r.digestOf(name, reference)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(r.manifestFile(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return errManifest
	}
	if err != nil {
		return err
	}
	kind, err := os.ReadFile(r.manifestFile(digest) + ".type")
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", string(kind))
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.Header().Set("Docker-Content-Digest", digest)
	w.WriteHeader(http.StatusOK)
	if q.Method == http.MethodGet {
		_, _ = w.Write(data) // a client that has gone away need not be told
	}
	return nil
}

func (r *Registry) putManifest(w http.ResponseWriter, q *http.Request, name, reference string) error {
	kind := q.Header.Get("Content-Type")
	data, err := io.ReadAll(io.LimitReader(q.Body, maxManifest+1))
	if err != nil {
		return err
	}
	var m manifestContent
	if err := json.Unmarshal(data, &m); err != nil || len(data) > maxManifest || !manifestTypes.MatchString(kind) {
		return &failure{http.StatusBadRequest, "MANIFEST_INVALID", fmt.Sprintf("%d bytes of type %q are no manifest", len(data), kind)}
	}
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	if digestOnly.MatchString(reference) && reference != digest {
		return errDigest
	}
	r.changing.RLock()
	defer r.changing.RUnlock()
	if err := r.complete(m); err != nil {
		return err
	}
	if err := r.writeFile(r.manifestFile(digest)+".type", []byte(kind)); err != nil {
		return err
	}
	if err := r.writeFile(r.manifestFile(digest), data); err != nil {
		return err
	}
	if !digestOnly.MatchString(reference) {
		if err := r.writeFile(r.tagFile(name, reference), []byte(digest)); err != nil {
			return err
		}
	}
	w.Header().Set("Location", fmt.Sprintf("/v2/%s/manifests/%s", name, digest))
	w.Header().Set("Docker-Content-Digest", digest)
	w.WriteHeader(http.StatusCreated)
	return nil
}

// complete says whether all is there that a manifest names.
func (r *Registry) complete(m manifestContent) error {
	missing := func(file string) bool {
		_, err := os.Stat(file)
		return err != nil
	}
	var absent []string
	for _, d := range append(m.Layers, m.Config) {
		if d.Digest != "" && (!digestOnly.MatchString(d.Digest) || missing(r.blobFile(d.Digest))) {
			absent = append(absent, d.Digest)
		}
	}
	for _, d := range m.Manifests {
		if !digestOnly.MatchString(d.Digest) || missing(r.manifestFile(d.Digest)) {
			absent = append(absent, d.Digest)
		}
	}
	if len(absent) > 0 {
		return &failure{http.StatusBadRequest, "MANIFEST_BLOB_UNKNOWN", "not here: " + strings.Join(absent, ", ")}
	}
	return nil
}

// deleteManifest removes a tag, or a manifest with all tags that lead to it. Layers go
// with the next Collect.
func (r *Registry) deleteManifest(w http.ResponseWriter, name, reference string) error {
	r.changing.RLock()
	defer r.changing.RUnlock()
	digest, err := r.digestOf(name, reference)
	if err != nil {
		return err
	}
	if digest != reference {
		if err := os.Remove(r.tagFile(name, reference)); err != nil {
			return err
		}
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if err := os.Remove(r.manifestFile(digest)); errors.Is(err, fs.ErrNotExist) {
		return errManifest
	} else if err != nil {
		return err
	}
	if err := os.Remove(r.manifestFile(digest) + ".type"); err != nil {
		return err
	}
	err = filepath.WalkDir(filepath.Join(r.dir, "repositories"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if text, err := os.ReadFile(path); err == nil && string(text) == digest {
			return os.Remove(path)
		}
		return nil
	})
	if err == nil {
		w.WriteHeader(http.StatusAccepted)
	}
	return err
}
