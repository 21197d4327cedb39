// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

// embedded are the page's files, as they are in the repository: no build step makes them.
//
//go:embed static
var embedded embed.FS

// mediaTypes are those of the files that a browser gets, by the ends of their names.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

// file is one of the page's files.
type file struct {
	plain, packed []byte
	mediaType     string
	tag           string // of the content, for If-None-Match
}

// allFiles returns the files of all pages by their paths.
var allFiles = sync.OnceValue(func() map[string]file {
	files := map[string]file{}
	err := fs.WalkDir(embedded, "static", func(name string, entry fs.DirEntry, err error) error {
		kind, served := mediaTypes[path.Ext(name)]
		if err != nil || entry.IsDir() || !served {
			return err
		}
		text, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		at := strings.TrimPrefix(name, "static")
		files[at] = file{plain: text, packed: pack(text), mediaType: kind, tag: `"` + hex.EncodeToString(sum[:12]) + `"`}
		return nil
	})
	if err != nil {
		panic(err) // the files are in the program
	}
	return files
})

func pack(text []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	_, _ = z.Write(text) // a buffer takes all
	_ = z.Close()
	return b.Bytes()
}

// staticFiles serves the files, with index at "/". A path is looked up in a table: it never
// becomes a path of the host.
func staticFiles(index string) http.Handler {
	files := allFiles()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := r.URL.Path
		if at == "/" {
			at = index
		}
		f, ok := files[at]
		if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Cache-Control", "no-cache") // kept, and asked for anew: an upgrade counts at once
		h.Set("ETag", f.tag)
		h.Set("Vary", "Accept-Encoding")
		if r.Header.Get("If-None-Match") == f.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", f.mediaType)
		body := f.plain
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
			body = f.packed
		}
		// A client that has gone away cannot be told so.
		_, _ = w.Write(body)
	})
}
