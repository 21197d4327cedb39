// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/internal/cluster/migrate/registry/access"
	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// TestHostileManifests: a manifest costs the manager what one input may, however long its lists
// are.
func TestHostileManifests(t *testing.T) {
	r := opened(t, Quota{NodeBytes: 100 << 20, Bytes: 200 << 20, Uploads: 4, Tags: 10})
	layer, config := []byte("x"), []byte("{}")
	node := member(t, r, "a", access.Right{Move: "m-1", Source: true})
	node.pushBlob(access.MoveRepository, layer)
	node.pushBlob(access.MoveRepository, config)
	filled := func(unit func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < bound.Manifest-2000; i++ {
			b.WriteString(unit(i) + ",")
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	for kind, list := range map[string]string{
		"application/vnd.oci.image.manifest.v1+json": "layers", "application/vnd.docker.distribution.manifest.v2+json": "layers",
		"application/vnd.oci.image.index.v1+json": "manifests", "application/vnd.docker.distribution.manifest.list.v2+json": "manifests",
	} {
		t.Run(kind, func(t *testing.T) {
			head := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,`, kind)
			if list == "layers" {
				head += fmt.Sprintf(`"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":2},`, digestOf(config))
			}
			again := fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":%q,"size":1}`, digestOf(layer))
			texts := append(boundtest.Lists(bound.Manifest, head+`"`+list+`":[`),
				head+`"`+list+`":[`+filled(func(int) string { return again })+"]}",
				head+`"annotations":{`+filled(func(i int) string { return fmt.Sprintf(`"%x":""`, i) })+"}}")
			for _, text := range texts {
				boundtest.Hold(t, func() {
					q := httptest.NewRequest(http.MethodPut, "/v2/weir-move/manifests/m-1", strings.NewReader(text))
					q.Header.Set("Content-Type", kind)
					w := httptest.NewRecorder()
					r.Serve(w, q, Client{Node: "a", Access: []access.Right{{Move: "m-1", Source: true}}})
					if w.Code != http.StatusBadRequest || w.Body.Len() > 1000 {
						t.Errorf("%.200s: %d %.200s", text, w.Code, w.Body)
					}
				})
			}
		})
	}
}

// TestImagesThatNameOneAnotherOften: an index of indexes, each with hundreds of the same, is walked
// once.
func TestImagesThatNameOneAnotherOften(t *testing.T) {
	const kind, many = "application/vnd.oci.image.index.v1+json", 100
	r := opened(t, Quota{NodeBytes: 100 << 20, Bytes: 200 << 20, Uploads: 4, Tags: 10})
	node := member(t, r, "a", access.Right{Move: "m-1", Source: true})
	node.pushImage(access.MoveRepository, "m-1", []byte("x"))
	inner := node.do("HEAD", node.base+"/v2/weir-move/manifests/m-1", "", nil, http.StatusOK).Header.Get("Docker-Content-Digest")
	for range 3 {
		one := fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":1},`, kind, inner)
		text := []byte(fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[`, kind) + strings.TrimSuffix(strings.Repeat(one, many), ",") + "]}")
		node.do("PUT", node.base+"/v2/weir-move/manifests/m-1", kind, text, http.StatusCreated)
		inner = digestOf(text)
	}
	boundtest.Hold(t, func() {
		w := httptest.NewRecorder()
		r.Serve(w, httptest.NewRequest(http.MethodGet, "/v2/weir-move/blobs/"+digestOf([]byte("x")), bytes.NewReader(nil)), Client{Node: "b", Access: []access.Right{{Move: "m-1"}}})
		if w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
