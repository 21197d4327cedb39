// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// blob serves a layer or a configuration.
func (r *Registry) blob(w http.ResponseWriter, q *http.Request, digest string) error {
	switch q.Method {
	case http.MethodGet, http.MethodHead:
		f, err := os.Open(r.blobFile(digest))
		if err != nil {
			return err
		}
		defer f.Close()
		w.Header().Set("Docker-Content-Digest", digest)
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Etag", `"`+digest+`"`)
		if q.Method == http.MethodGet {
			w = &counted{w, r}
		}
		http.ServeContent(w, q, "", time.Time{}, f) // parts too, which engines ask for after a cut
		return nil
	case http.MethodDelete:
		if err := os.Remove(r.blobFile(digest)); err != nil {
			return err
		}
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	return errMethod
}

type counted struct {
	http.ResponseWriter
	r *Registry
}

// ReadFrom keeps the kernel's own copying from file to socket.
func (c *counted) ReadFrom(from io.Reader) (int64, error) {
	n, err := io.Copy(c.ResponseWriter, from)
	c.r.sent.Add(n)
	return n, err
}

// startUpload answers with the address where a layer is to be sent, takes a whole
// one, or finds that it is there already.
func (r *Registry) startUpload(w http.ResponseWriter, q *http.Request, name string) error {
	if q.Method != http.MethodPost {
		return errMethod
	}
	query := q.URL.Query()
	if digest := query.Get("mount"); digestOnly.MatchString(digest) {
		now := time.Now() // it is wanted, see Collect
		if os.Chtimes(r.blobFile(digest), now, now) == nil {
			created(w, name, digest)
			return nil
		}
	}
	id := strings.ToLower(rand.Text())
	f, err := os.OpenFile(r.uploadFile(id), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if query.Has("digest") {
		return r.finish(w, q, name, id)
	}
	accepted(w, name, id, 0)
	return nil
}

func (r *Registry) uploadFile(id string) string { return filepath.Join(r.dir, "uploads", id) }

// accepted says how much of an upload there is.
func accepted(w http.ResponseWriter, name, id string, size int64) {
	w.Header().Set("Location", fmt.Sprintf("/v2/%s/blobs/uploads/%s", name, id))
	w.Header().Set("Docker-Upload-UUID", id)
	w.Header().Set("Range", fmt.Sprintf("0-%d", max(size-1, 0)))
	w.WriteHeader(http.StatusAccepted)
}

func created(w http.ResponseWriter, name, digest string) {
	w.Header().Set("Location", fmt.Sprintf("/v2/%s/blobs/%s", name, digest))
	w.Header().Set("Docker-Content-Digest", digest)
	w.WriteHeader(http.StatusCreated)
}

// upload takes a part of a layer, or the last one.
func (r *Registry) upload(w http.ResponseWriter, q *http.Request, name, id string) error {
	switch q.Method {
	case http.MethodPatch:
		size, err := r.append(q, id)
		if err != nil {
			return err
		}
		accepted(w, name, id, size)
		return nil
	case http.MethodPut:
		return r.finish(w, q, name, id)
	case http.MethodGet:
		info, err := os.Stat(r.uploadFile(id))
		if err != nil {
			return errUpload
		}
		accepted(w, name, id, info.Size())
		return nil
	case http.MethodDelete:
		if err := os.Remove(r.uploadFile(id)); err != nil {
			return errUpload
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return errMethod
}

// append puts the request's body at the end of an upload.
func (r *Registry) append(q *http.Request, id string) (size int64, err error) {
	f, err := os.OpenFile(r.uploadFile(id), os.O_APPEND|os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, errUpload
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	var start, end int64
	if given := q.Header.Get("Content-Range"); given != "" {
		if _, err := fmt.Sscanf(given, "%d-%d", &start, &end); err != nil || start != info.Size() {
			return 0, &failure{http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", fmt.Sprintf("part %s does not follow the %d bytes that are here", given, info.Size())}
		}
	}
	n, err := io.Copy(f, q.Body)
	r.received.Add(n)
	if err != nil {
		return 0, fmt.Errorf("take a layer: %w", err)
	}
	return info.Size() + n, f.Close()
}

// finish takes what is left of an upload and gives it its name, if the digest is right.
func (r *Registry) finish(w http.ResponseWriter, q *http.Request, name, id string) error {
	digest := q.URL.Query().Get("digest")
	if !digestOnly.MatchString(digest) {
		return errDigestFormat
	}
	file := r.uploadFile(id)
	if _, err := r.append(q, id); err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != hexOf(digest) {
		return errors.Join(errDigest, os.Remove(file))
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(file, r.blobFile(digest)); err != nil {
		return err
	}
	created(w, name, digest)
	return nil
}
