// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func digestOf(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// client speaks as an engine does.
type client struct {
	t    *testing.T
	base string
}

func (c client) do(method, path, kind string, body []byte, status int) *http.Response {
	c.t.Helper()
	q, err := http.NewRequest(method, path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	q.Header.Set("Content-Type", kind)
	q.Header.Set("Accept", manifestKind)
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { r.Body.Close() })
	if r.StatusCode != status {
		text, _ := io.ReadAll(r.Body)
		c.t.Fatalf("%s %s: %s, want %d: %s", method, path, r.Status, status, text)
	}
	return r
}

func (c client) pushBlob(name string, data []byte) {
	c.t.Helper()
	at := c.do("POST", c.base+"/v2/"+name+"/blobs/uploads/", "", nil, http.StatusAccepted).Header.Get("Location")
	at = c.do("PATCH", at, "application/octet-stream", data, http.StatusAccepted).Header.Get("Location")
	c.do("PUT", at+"&digest="+digestOf(data), "", nil, http.StatusCreated)
}

const manifestKind = "application/vnd.docker.distribution.manifest.v2+json"

func (c client) pushImage(name, tag string, layer []byte) {
	c.t.Helper()
	config := []byte(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers"}}`)
	c.pushBlob(name, config)
	c.pushBlob(name, layer)
	part := func(kind string, data []byte) map[string]any {
		return map[string]any{"mediaType": kind, "size": len(data), "digest": digestOf(data)}
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestKind,
		"config": part("application/vnd.docker.container.image.v1+json", config),
		"layers": []any{part("application/vnd.docker.image.rootfs.diff.tar.gzip", layer)},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.do("PUT", c.base+"/v2/"+name+"/manifests/"+tag, manifestKind, manifest, http.StatusCreated)
}

func open(t *testing.T, dir string) (*Registry, client, func()) {
	t.Helper()
	r, err := Open(dir, Quota{})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(r)
	return r, client{t, s.URL}, func() { s.Close(); r.Close() }
}

// TestImagesStayUntilTheyAreCollected: an image that was pushed is there after a
// restart. An image that lost its tag is collected, but not while a client may be
// in the middle of a push, nor the layers that another image needs.
func TestImagesStayUntilTheyAreCollected(t *testing.T) {
	dir := t.TempDir()
	_, c, stop := open(t, dir)
	shared, own := bytes.Repeat([]byte("shared"), 1<<17), bytes.Repeat([]byte("own"), 1<<18)
	c.pushImage("weir/base", "1", shared)
	c.pushImage("weir/web", "m-1", own)
	stop()

	r, c, stop := open(t, dir)
	defer stop()
	got := c.do("GET", c.base+"/v2/weir/web/blobs/"+digestOf(own), "", nil, http.StatusOK)
	if data, err := io.ReadAll(got.Body); err != nil || !bytes.Equal(data, own) {
		t.Fatalf("%d bytes came back, %v", len(data), err)
	}
	// The last piece is counted when it has been handed to the connection: the reader may
	// have it before.
	counted := func() int64 { _, sent := r.Traffic(); return sent }
	for deadline := time.Now().Add(5 * time.Second); counted() < int64(len(own)) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if sent := counted(); sent != int64(len(own)) {
		t.Errorf("%d bytes counted as sent, want %d", sent, len(own))
	}
	at := c.do("GET", c.base+"/v2/weir/web/manifests/m-1", "", nil, http.StatusOK).Header.Get("Docker-Content-Digest")
	c.do("DELETE", c.base+"/v2/weir/web/manifests/"+at, "", nil, http.StatusAccepted)
	if freed, err := r.Collect(t.Context(), time.Hour); freed != 0 || err != nil {
		t.Errorf("freed %d, %v, just after a change", freed, err)
	}
	freed, err := r.Collect(t.Context(), 0)
	if err != nil || freed < int64(len(own)) || freed > int64(len(own))+10000 {
		t.Errorf("freed %d bytes of the layer's %d, %v", freed, len(own), err)
	}
	c.do("HEAD", c.base+"/v2/weir/web/blobs/"+digestOf(own), "", nil, http.StatusNotFound)
	c.do("HEAD", c.base+"/v2/weir/base/blobs/"+digestOf(shared), "", nil, http.StatusOK)
	// The same layer may come again.
	c.pushImage("weir/web", "m-2", own)
	c.do("GET", c.base+"/v2/weir/web/manifests/m-2", "", nil, http.StatusOK)
}

// An image that was pushed long ago goes; one that was pushed again since, or is in
// another repository, stays.
func TestOldImagesExpire(t *testing.T) {
	dir := t.TempDir()
	r, c, stop := open(t, dir)
	defer stop()
	if err := r.Expire(t.Context(), "weir/move", time.Hour); err != nil {
		t.Errorf("a repository that nothing was pushed to: %v", err)
	}
	layer := bytes.Repeat([]byte("layer"), 1<<17)
	for _, tag := range []string{"old", "again"} {
		c.pushImage("weir/move", tag, append([]byte(tag), layer...))
		c.pushImage("weir/base", tag, append([]byte(tag), layer...))
	}
	links, err := filepath.Glob(filepath.Join(dir, "docker/registry/v2/repositories/weir/*/_manifests/tags/*/current/link"))
	if err != nil || len(links) != 4 {
		t.Fatalf("links %v, %v", links, err)
	}
	for _, link := range links {
		long := time.Now().Add(-2 * time.Hour)
		if err := os.Chtimes(link, long, long); err != nil {
			t.Fatal(err)
		}
	}
	c.pushImage("weir/move", "again", append([]byte("again"), layer...))
	if err := r.Expire(t.Context(), "weir/move", time.Hour); err != nil {
		t.Fatal(err)
	}
	c.do("GET", c.base+"/v2/weir/move/manifests/old", "", nil, http.StatusNotFound)
	c.do("GET", c.base+"/v2/weir/move/manifests/again", "", nil, http.StatusOK)
	c.do("GET", c.base+"/v2/weir/base/manifests/old", "", nil, http.StatusOK)
}

func TestWhatArrivesDamagedIsRefused(t *testing.T) {
	r, c, stop := open(t, t.TempDir())
	defer stop()
	at := c.do("POST", c.base+"/v2/weir/web/blobs/uploads/", "", nil, http.StatusAccepted).Header.Get("Location")
	c.do("PUT", at+"&digest="+digestOf([]byte("one thing")), "application/octet-stream", []byte("another"), http.StatusBadRequest)
	c.do("HEAD", c.base+"/v2/weir/web/blobs/"+digestOf([]byte("one thing")), "", nil, http.StatusNotFound)
	if received, _ := r.Traffic(); received != int64(len("another")) {
		t.Errorf("%d bytes counted as received", received)
	}
}

func TestAFolderThatCannotBe(t *testing.T) {
	if _, err := Open("/dev/null/registry", Quota{}); err == nil {
		t.Error("opened")
	}
}
