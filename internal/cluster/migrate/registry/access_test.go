// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/migrate/registry/access"
	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// member serves a registry to a node with rights.
func member(t *testing.T, r *Registry, node string, rights ...access.Right) client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.Serve(w, q, Client{Node: node, Access: rights}) }))
	t.Cleanup(s.Close)
	return client{t, s.URL}
}

func opened(t *testing.T, q Quota) *Registry {
	t.Helper()
	r, err := Open(t.TempDir(), q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// manifestOf returns a manifest of one layer.
func manifestOf(config, layer []byte) []byte {
	return fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.docker.container.image.v1+json","size":%d,"digest":%q},`+
		`"layers":[{"mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","size":%d,"digest":%q}]}`,
		manifestKind, len(config), digestOf(config), len(layer), digestOf(layer))
}

// TestOnlyASourcePushesAndItsTargetPulls: a third member can do nothing with a move's
// images, the target can write none of the source's, and no member deletes one.
func TestOnlyASourcePushesAndItsTargetPulls(t *testing.T) {
	r := opened(t, Quota{})
	source := member(t, r, "a", access.Right{Move: "m-1", Source: true})
	target := member(t, r, "b", access.Right{Move: "m-1"})
	other := member(t, r, "c", access.Right{Move: "m-2", Source: true}, access.Right{Move: "m-3"})
	idle := member(t, r, "d")
	layer, evil := []byte("layer"), []byte("evil")
	config := []byte(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers"}}`)
	for _, repository := range []string{access.MoveRepository, access.BaseRepository} {
		source.pushImage(repository, "m-1", layer)
		other.pushImage(repository, "m-2", evil)
	}
	manifest := digestOf(manifestOf(config, layer))
	resp := target.do("GET", target.base+"/v2/weir-move/manifests/m-1", "", nil, http.StatusOK)
	if got := resp.Header.Get("Docker-Content-Digest"); len(got) != len(manifest) {
		t.Fatal(got)
	} else {
		manifest = got
	}
	target.do("GET", target.base+"/v2/weir-move/manifests/"+manifest, "", nil, http.StatusOK)
	target.do("GET", target.base+"/v2/weir-move/blobs/"+digestOf(layer), "", nil, http.StatusOK)
	target.pushImage(access.BaseRepository, "m-1"+access.HintSuffix, layer)
	body := manifestOf(config, evil)
	for name, x := range map[string]struct {
		as           client
		method, path string
		status       int
	}{
		"another's tag overwritten":             {other, "PUT", "weir-move/manifests/m-1", 403},
		"another's image overwritten":           {other, "PUT", "weir-base/manifests/m-1", 403},
		"another's hint overwritten":            {other, "PUT", "weir-base/manifests/m-1-target", 403},
		"another's tag deleted":                 {other, "DELETE", "weir-move/manifests/m-1", 403},
		"another's manifest deleted":            {other, "DELETE", "weir-move/manifests/" + manifest, 403},
		"another's layer deleted":               {other, "DELETE", "weir-move/blobs/" + digestOf(layer), 403},
		"another's tag read":                    {other, "GET", "weir-move/manifests/m-1", 403},
		"another's manifest read":               {other, "GET", "weir-move/manifests/" + manifest, 404},
		"another's layer read":                  {other, "GET", "weir-move/blobs/" + digestOf(layer), 404},
		"without a move: read":                  {idle, "GET", "weir-move/manifests/m-1", 403},
		"without a move: a layer read":          {idle, "GET", "weir-move/blobs/" + digestOf(layer), 403},
		"without a move: push":                  {idle, "POST", "weir-move/blobs/uploads/", 403},
		"the target overwrites":                 {target, "PUT", "weir-move/manifests/m-1", 403},
		"the target overwrites the base":        {target, "PUT", "weir-base/manifests/m-1", 403},
		"the target pushes a layer of the move": {target, "POST", "weir-move/blobs/uploads/", 403},
		"the target deletes":                    {target, "DELETE", "weir-move/manifests/" + manifest, 403},
		"the source deletes":                    {source, "DELETE", "weir-move/manifests/" + manifest, 403},
		"the source deletes a layer":            {source, "DELETE", "weir-move/blobs/" + digestOf(layer), 403},
		"the source reads a layer":              {source, "GET", "weir-move/blobs/" + digestOf(evil), 403},
		"a repository of its own":               {source, "POST", "mine/blobs/uploads/", 403},
		"a tag of its own":                      {source, "PUT", "weir-move/manifests/mine", 403},
		"the catalog":                           {source, "GET", "_catalog", 403},
		"the tags":                              {source, "GET", "weir-move/tags/list", 403},
		"mounted from elsewhere":                {source, "POST", "weir-move/blobs/uploads/?from=mine&mount=" + digestOf(evil), 403},
		"a path with dots":                      {other, "PUT", "weir-move/manifests/m-2/../m-1", 403},
		"a path in disguise":                    {other, "PUT", "weir-move/manifests/m%2D1", 403},
		"an upload that is none":                {source, "PATCH", "weir-move/blobs/uploads/01a2051d-a2e5-77bf-994d-b83fa0f292e7", 404},
	} {
		t.Run(name, func(t *testing.T) {
			as := x.as
			as.t = t
			answer := as.do(x.method, as.base+"/v2/"+x.path, manifestKind, body, x.status)
			if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), `"errors":[{"code":`) {
				t.Errorf("%q, %v: no error of the specification's", text, err)
			}
		})
	}
	at := source.do("POST", source.base+"/v2/weir-move/blobs/uploads/", "", nil, http.StatusAccepted).Header.Get("Location")
	location, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	other.do("PATCH", other.base+location.RequestURI(), "application/octet-stream", evil, http.StatusNotFound)
	source.do("PATCH", at, "application/octet-stream", layer, http.StatusAccepted)
	after := target.do("GET", target.base+"/v2/weir-move/manifests/m-1", "", nil, http.StatusOK)
	if got := after.Header.Get("Docker-Content-Digest"); got != manifest {
		t.Errorf("what the target pulls was %s and is %s", manifest, got)
	}
}

// TestSourcesLearnNothingOfOthers: whether a layer of another node is there does not show to
// who asks for it, mounts it, or names it in an image of its own; what a node has had itself it
// need not send again.
func TestSourcesLearnNothingOfOthers(t *testing.T) {
	r := opened(t, Quota{})
	source := member(t, r, "a", access.Right{Move: "m-1", Source: true})
	target := member(t, r, "b", access.Right{Move: "m-1"}, access.Right{Move: "m-4", Source: true})
	other := member(t, r, "c", access.Right{Move: "m-2", Source: true})
	layer, config := []byte("layer"), []byte(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers"}}`)
	source.pushImage(access.MoveRepository, "m-1", layer)
	at := func(c client, repository string, data []byte) string {
		return c.base + "/v2/" + repository + "/blobs/" + digestOf(data)
	}
	mount := func(c client, data []byte) string {
		return c.base + "/v2/weir-base/blobs/uploads/?from=weir-move&mount=" + digestOf(data)
	}
	other.do("HEAD", at(other, access.MoveRepository, layer), "", nil, http.StatusNotFound)
	other.do("POST", mount(other, layer), "", nil, http.StatusAccepted)
	other.pushBlob(access.MoveRepository, config)
	other.do("PUT", other.base+"/v2/weir-move/manifests/m-2", manifestKind, manifestOf(config, layer), http.StatusBadRequest)

	source.do("HEAD", at(source, access.MoveRepository, layer), "", nil, http.StatusOK)
	source.do("POST", mount(source, layer), "", nil, http.StatusCreated)
	target.do("GET", at(target, access.MoveRepository, layer), "", nil, http.StatusOK)
	later := member(t, r, "b", access.Right{Move: "m-4", Source: true})
	later.do("HEAD", at(later, access.MoveRepository, layer), "", nil, http.StatusOK)

	other.pushBlob(access.MoveRepository, layer) // it has it too
	other.do("HEAD", at(other, access.MoveRepository, layer), "", nil, http.StatusOK)
	other.do("PUT", other.base+"/v2/weir-move/manifests/m-2", manifestKind, manifestOf(config, layer), http.StatusCreated)
}

// TestNoNodeFillsTheDisk: bytes of a node and of all, uploads and images have bounds,
// an engine is told which, and what was refused leaves nothing on the disk.
func TestNoNodeFillsTheDisk(t *testing.T) {
	r := opened(t, Quota{NodeBytes: 100_000, Bytes: 150_000, FreeBytes: 1, Uploads: 3, Tags: 2})
	a, b := member(t, r, "a", access.Right{Move: "m-1", Source: true}), member(t, r, "b", access.Right{Move: "m-2", Source: true})
	says := func(resp *http.Response, words ...string) {
		t.Helper()
		text, err := io.ReadAll(resp.Body)
		for _, word := range append(words, `"errors":[{"code":"`) {
			if err != nil || !strings.Contains(string(text), word) {
				t.Errorf("%q, %v, does not say %q", text, err, word)
			}
		}
	}
	upload := func(c client, bytes, status int) *http.Response {
		t.Helper()
		at := c.do("POST", c.base+"/v2/weir-move/blobs/uploads/", "", nil, http.StatusAccepted).Header.Get("Location")
		// In pieces of unknown length, as engines send them.
		q, err := http.NewRequest("PATCH", at, io.MultiReader(strings.NewReader(strings.Repeat("x", bytes))))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		if resp.StatusCode != status {
			t.Fatalf("%d bytes: %s, want %d", bytes, resp.Status, status)
		}
		return resp
	}
	says(upload(a, 150_000, http.StatusTooManyRequests), "node a", "100 kB", "manager.images.per_node")
	if u := r.Usage(); u.Bytes != 0 || u.Uploads != 0 || u.Refused == 0 {
		t.Errorf("after a refusal: %+v", u)
	}
	left := int64(0)
	err := filepath.WalkDir(r.dir, func(_ string, entry os.DirEntry, err error) error {
		if info, infoErr := entry.Info(); err == nil && infoErr == nil && info.Mode().IsRegular() {
			left += info.Size()
		}
		return err
	})
	if err != nil || left > 1000 {
		t.Errorf("%d bytes of it are left, %v", left, err)
	}
	a.pushBlob(access.MoveRepository, bytes.Repeat([]byte("a"), 90_000))
	upload(a, 20_000, http.StatusTooManyRequests)
	says(upload(b, 70_000, http.StatusInsufficientStorage), "150 kB", "manager.images.total")
	b.pushBlob(access.MoveRepository, []byte("small"))
	if u := r.Usage(); u.Bytes != 90_005 || u.Nodes["a"] != 90_000 || u.Nodes["b"] != 5 {
		t.Errorf("%+v", u)
	}
	for range 3 {
		b.do("POST", b.base+"/v2/weir-move/blobs/uploads/", "", nil, http.StatusAccepted)
	}
	says(b.do("POST", b.base+"/v2/weir-move/blobs/uploads/", "", nil, http.StatusTooManyRequests), "3 uploads")
	r.dropIdle(t.Context(), 0)
	b.pushImage(access.MoveRepository, "m-2", []byte("one"))
	b.pushImage(access.BaseRepository, "m-2", []byte("one"))
	c := member(t, r, "c", access.Right{Move: "m-3", Source: true})
	config := []byte(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers"}}`)
	says(c.do("PUT", c.base+"/v2/weir-move/manifests/m-3", manifestKind, manifestOf(config, []byte("one")), http.StatusInsufficientStorage), "holds 2 images")
	b.pushImage(access.MoveRepository, "m-2", []byte("again"))
}

// TestAFullDiskIsToldBeforeItIsFull: a floor of free bytes stays.
func TestAFullDiskIsToldBeforeItIsFull(t *testing.T) {
	r := opened(t, Quota{FreeBytes: 1 << 60})
	a := member(t, r, "a", access.Right{Move: "m-1", Source: true})
	resp := a.do("POST", a.base+"/v2/weir-move/blobs/uploads/", "", nil, http.StatusInsufficientStorage)
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), "manager.images.keep_free") {
		t.Errorf("%q, %v", text, err)
	}
}

// TestWhoseTheImagesAre is known after a restart too, and freed with them.
func TestWhoseTheImagesAre(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir, Quota{})
	if err != nil {
		t.Fatal(err)
	}
	member(t, r, "a", access.Right{Move: "m-1", Source: true}).pushImage(access.MoveRepository, "m-1", bytes.Repeat([]byte("a"), 10_000))
	before := r.Usage()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err = Open(dir, Quota{}); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if after := r.Usage(); after.Nodes["a"] != before.Nodes["a"] || after.Nodes["a"] < 10_000 || after.Bytes != before.Bytes {
		t.Errorf("%+v, then %+v", before, after)
	}
	if err := r.Expire(t.Context(), access.MoveRepository, -time.Second); err != nil {
		t.Fatal(err)
	}
	if freed, err := r.Collect(t.Context(), 0); err != nil || freed != before.Bytes {
		t.Errorf("freed %d of %d, %v", freed, before.Bytes, err)
	}
	if left := r.Usage(); left.Bytes != 0 || len(left.Nodes) != 0 {
		t.Errorf("%+v", left)
	}
}

// FuzzRequests sends anything as a member that may push and pull for a move of its own.
// Nothing of another move changes, and no memory or disk fills.
func FuzzRequests(f *testing.F) {
	for _, path := range []string{"/v2/", "/v2/weir-move/manifests/m-1", "/v2/weir-base/manifests/m-1-target", "/v2/weir-move/blobs/uploads/?from=weir-base&mount=x",
		"/v2/weir-move/blobs/" + digestOf([]byte("x")), "/v2/weir-move/blobs/uploads/01a2051d-a2e5-77bf-994d-b83fa0f292e7?_state=x&digest=" + digestOf([]byte("x")), "/v2/_catalog?n=-1"} {
		for _, method := range []string{"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE"} {
			f.Add(method, path, "application/octet-stream", []byte(`{"schemaVersion":2}`))
		}
	}
	dir := f.TempDir()
	r, err := Open(dir, Quota{NodeBytes: 16 << 20, Bytes: 32 << 20, Uploads: 4, Tags: 10})
	if err != nil {
		f.Fatal(err)
	}
	defer r.Close()
	served := httptest.NewServer(r)
	defer served.Close()
	var want string
	for _, text := range boundtest.Texts(bound.Manifest, `{"layers":`) {
		f.Add("PUT", "/v2/weir-move/manifests/m-1", "application/vnd.oci.image.manifest.v1+json", []byte(text))
	}
	f.Fuzz(func(t *testing.T, method, path, kind string, data []byte) {
		boundtest.Hold(t, func() {
			victim := client{t, served.URL}
			if want == "" {
				victim.pushImage(access.MoveRepository, "m-2", []byte("the victim's"))
				want = victim.do("HEAD", served.URL+"/v2/weir-move/manifests/m-2", "", nil, http.StatusOK).Header.Get("Docker-Content-Digest")
			}
			q, err := http.NewRequest(method, "http://registry"+path, bytes.NewReader(data))
			if err != nil {
				return
			}
			q.Header.Set("Content-Type", kind)
			r.Serve(httptest.NewRecorder(), q, Client{Node: "a", Access: []access.Right{{Move: "m-1", Source: true}, {Move: "m-3"}}})
			if got := victim.do("HEAD", served.URL+"/v2/weir-move/manifests/m-2", "", nil, http.StatusOK).Header.Get("Docker-Content-Digest"); got != want {
				t.Fatalf("another's image was %s and is %s", want, got)
			}
			if u := r.Usage(); u.Nodes["a"] > 16<<20 || u.Uploads > 4 {
				t.Fatalf("%+v", u)
			}
		})
	})
}
