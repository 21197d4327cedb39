// SPDX-License-Identifier: Apache-2.0

package access

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"
)

// packedLayer is one that unpacks to so many MiB.
func packedLayer(t *testing.T, mib int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: int64(mib) << 20}); err != nil {
		t.Fatal(err)
	}
	for range mib {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPulledLayersAreHeldToTheAllowance: a layer that unpacks to more never comes to its
// end, and the engine that tries again is told why.
func TestPulledLayersAreHeldToTheAllowance(t *testing.T) {
	layers := map[string][]byte{"1": packedLayer(t, 4), "2": packedLayer(t, 5), "3": packedLayer(t, 100), "4": []byte(`{"rootfs":{}}`), "5": bytes.Repeat([]byte("x"), 4096)}
	asked := map[string]int{}
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		id := q.URL.Path[len(q.URL.Path)-1:]
		asked[id]++
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(layers[id]))
	}))
	defer store.Close()
	at, err := url.Parse(store.URL)
	if err != nil {
		t.Fatal(err)
	}
	allowance := NewAllowance(10 << 20)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }, Transport: Watch(http.DefaultTransport), ErrorLog: log.New(io.Discard, "", 0)}
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		proxy.ServeHTTP(w, q.WithContext(allowance.With(q.Context())))
	}))
	defer agent.Close()
	// On a connection that was used before, a client tries again by itself.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i, c := range []struct {
		layer  string
		status int // 0: it breaks off
		says   string
	}{
		{"1", 200, ""}, {"1", 200, ""}, {"1", 200, ""}, // the same is counted once
		{"3", 0, ""}, {"3", 403, "more than was announced"},
		{"2", 200, ""}, // what broke off counts for nothing
		{"4", 200, ""}, {"5", 0, ""}, {"5", 403, "cannot be read"},
	} {
		q, err := http.NewRequest(http.MethodGet, agent.URL+"/v2/weir-move/blobs/sha256:"+strings.Repeat("0", 63)+c.layer, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Range", "bytes=100-")
		resp, err := client.Do(q)
		var text []byte
		if err != nil && c.status != 0 {
			t.Fatal(err)
		}
		if err == nil {
			text, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		switch {
		case c.status == 0 && (err == nil || len(text) >= len(layers[c.layer])):
			t.Errorf("%d, layer %s: %d of %d bytes came, %v", i, c.layer, len(text), len(layers[c.layer]), err)
		case c.status == 200 && (err != nil || resp.StatusCode != 200 || !bytes.Equal(text, layers[c.layer])):
			t.Errorf("%d, layer %s: %d bytes, %s, %v", i, c.layer, len(text), resp.Status, err)
		case c.status == 403 && (resp.StatusCode != 403 || !strings.Contains(string(text), c.says)):
			t.Errorf("%d, layer %s: %s %.200q", i, c.layer, resp.Status, text)
		}
	}
	if fmt.Sprint(asked) != "map[1:3 2:1 3:1 4:1 5:1]" {
		t.Errorf("asked for %v", asked)
	}
}
