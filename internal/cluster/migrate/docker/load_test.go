// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"weir/internal/cluster/move"
	"weir/internal/core/accept"

	"github.com/docker/docker/api/types/image"
	"github.com/klauspost/compress/gzip"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker/archive"
	"weir/internal/cluster/migrate/pack"
	"weir/internal/test/dockertest"
)

// guarded returns an engine that takes containers from others.
func guarded(t *testing.T) (*Engine, *dockertest.Engine) {
	t.Helper()
	daemon := dockertest.ForTest(t)
	e, err := Open(daemon.Client().DaemonHost())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	e.Guard(accept.Rules{})
	return e, daemon
}

// forgery is an image as a hostile node makes one up.
type forgery struct {
	layers [][]byte          // files of the archive
	names  []string          // that the manifest gives the layers; nil = of the layers, in order
	links  map[string]string // beside the layers
	config string            // "" = one that fits
	id     string            // that is ordered; "" = the configuration's
}

func tarOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, endless{}, h.Size); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func zipped(t *testing.T, pieces ...[]byte) []byte {
	t.Helper()
	var all bytes.Buffer
	for _, p := range pieces {
		w := gzip.NewWriter(&all)
		if _, err := w.Write(p); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all.Bytes()
}

// bomb returns a packed layer with a file of so many MiB.
func bomb(t *testing.T, mib int) []byte {
	var header bytes.Buffer
	if err := tar.NewWriter(&header).WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: int64(mib) << 20}); err != nil {
		t.Fatal(err)
	}
	piece := zipped(t, make([]byte, 64<<20))
	return append(append(zipped(t, header.Bytes()), bytes.Repeat(piece, mib/64)...), zipped(t, make([]byte, 1024))...)
}

// stream returns the forgery as it arrives, and the order for it.
func (f forgery) stream(t *testing.T) (io.Reader, migrate.MoveSpec) {
	t.Helper()
	files := map[string][]byte{}
	var names []string
	for i, layer := range f.layers {
		name := fmt.Sprintf("l%d/layer.tar", i)
		files[name] = layer
		names = append(names, name)
	}
	if f.names != nil {
		names = f.names
	}
	if f.config == "" {
		f.config = configFor(t, names, func(name string) []byte {
			if to, ok := f.links[name]; ok {
				name = to
			}
			return files[name]
		})
	}
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(f.config)))
	if f.id != "" {
		hash = f.id
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": hash + ".json", "RepoTags": []string{"nginx:latest"}, "Layers": names}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	put := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		put(tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, content)
	}
	for name, to := range f.links {
		put(tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: "../" + to}, nil)
	}
	put(tar.Header{Name: hash + ".json", Typeflag: tar.TypeReg, Mode: 0o644}, []byte(f.config))
	put(tar.Header{Name: "manifest.json", Typeflag: tar.TypeReg, Mode: 0o644}, manifest)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	if _, err := pack.Copy(&packed, &b); err != nil {
		t.Fatal(err)
	}
	return &packed, migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Approach: migrate.ApproachLayer,
		Container: migrate.Container{Name: "web", Engine: "docker", Image: "app:1", ImageID: "sha256:" + hash}}
}

// configFor returns an image's configuration with layers of such contents.
func configFor(t *testing.T, names []string, content func(name string) []byte) string {
	t.Helper()
	diffs := []string{}
	for _, name := range names {
		layer := io.Reader(bytes.NewReader(content(name)))
		if z, err := gzip.NewReader(bytes.NewReader(content(name))); err == nil {
			layer = z
		}
		hash := sha256.New()
		if _, err := io.Copy(hash, layer); err != nil {
			t.Fatal(err)
		}
		diffs = append(diffs, fmt.Sprintf("sha256:%x", hash.Sum(nil)))
	}
	text, err := json.Marshal(map[string]any{"architecture": "amd64", "os": "linux", "config": map[string]any{}, "rootfs": map[string]any{"type": "layers", "diff_ids": diffs}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestHostileImages: what a hostile node sends in place of an image is refused in one
// clear line before the engine, a real one, has made anything of it.
func TestHostileImages(t *testing.T) {
	e, daemon := guarded(t)
	if _, err := daemon.Create(t.Context(), dockertest.Container{Name: "web"}); err != nil { // makes the image
		t.Fatal(err)
	}
	before := stateOf(t, e)
	file := func(size int64) []byte { return tarOf(t, tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: size}) }
	small := file(10)
	many := make([]string, 100)
	for i := range many {
		many[i] = "l0/layer.tar"
	}
	for name, c := range map[string]struct {
		forgery
		says string
	}{
		"a bomb":                           {forgery{layers: [][]byte{bomb(t, 1024)}}, "packed"},
		"a layer that is packed":           {forgery{layers: [][]byte{zipped(t, small)}}, "packed"},
		"one layer, named a hundred times": {forgery{layers: [][]byte{file(10 << 20)}, names: many}, "more than was announced"},
		"another content":                  {forgery{layers: [][]byte{small}, id: strings.Repeat("e", 64)}, "under the name of"},
		"a large configuration":            {forgery{layers: [][]byte{small}, config: `{"x":"` + strings.Repeat("x", 5<<20) + `"}`}, "configuration"},
		"a layer that leads elsewhere":     {forgery{layers: [][]byte{small}, names: []string{"x/layer.tar"}, links: map[string]string{"x/layer.tar": "../../../etc/passwd"}}, "no layer"},
		"a layer of a folder outside":      {forgery{layers: [][]byte{small}, names: []string{"../../etc/passwd"}}, "layer"},
	} {
		t.Run(name, func(t *testing.T) {
			stream, o := c.stream(t)
			_, err := e.Receive(t.Context(), migrate.Part{Kind: migrate.PartImage}, o, stream)
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one line with %q", err, c.says)
			}
			if after := stateOf(t, e); after != before {
				t.Errorf("the engine had\n%s\nand has\n%s", before, after)
				_, err := e.client.ImageRemove(t.Context(), o.Container.ImageID, image.RemoveOptions{Force: true})
				t.Log(err)
			}
		})
	}
	t.Run("an honest one", func(t *testing.T) {
		honest := forgery{layers: [][]byte{small, file(20)}, names: []string{"l0/layer.tar", "l1/layer.tar", "l2/layer.tar"}, links: map[string]string{"l2/layer.tar": "l0/layer.tar"}}
		stream, o := honest.stream(t)
		if _, err := e.Receive(t.Context(), migrate.Part{Kind: migrate.PartImage}, o, stream); err != nil {
			t.Fatal(err)
		}
		if found, err := e.client.ImageInspect(t.Context(), o.Container.ImageID); err != nil || len(found.RepoTags) != 1 || found.RepoTags[0] != brought(o) {
			t.Errorf("%v, %v", found.RepoTags, err)
		}
		if _, err := e.Do(t.Context(), move.Discard, o); err != nil {
			t.Error(err)
		}
	})
	t.Run("a file system that is packed once more", func(t *testing.T) {
		for says, archive := range map[string][]byte{"packed": bomb(t, 1024), "more than was announced": file(600 << 20)} {
			var packed bytes.Buffer
			if _, err := pack.Copy(&packed, bytes.NewReader(archive)); err != nil {
				t.Fatal(err)
			}
			o := migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Approach: migrate.ApproachExport, Container: migrate.Container{Name: "web"}}
			_, err := e.Receive(t.Context(), migrate.Part{Kind: migrate.PartExport}, o, &packed)
			if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one line with %q", err, says)
			}
			if after := stateOf(t, e); after != before {
				t.Errorf("the engine had\n%s\nand has\n%s", before, after)
			}
		}
	})
}

// TestTenGigabytesInTenMegabytes are refused without being unpacked.
func TestTenGigabytesInTenMegabytes(t *testing.T) {
	layer := bomb(t, 10<<10)
	stream, o := forgery{layers: [][]byte{layer}, config: "{}", id: strings.Repeat("e", 64)}.stream(t)
	unpacked, _, err := pack.Unpack(stream, pack.StreamBounds{Bytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer unpacked.Close()
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	_, err = archive.Survey(bytes.NewReader(text), o.Container.ImageID, pack.StreamBounds{Bytes: 1 << 30, Entries: 1 << 20})
	if err == nil || !strings.Contains(err.Error(), "packed") {
		t.Errorf("%d bytes: %v", len(layer), err)
	}
	t.Logf("%d bytes: %v", len(layer), err)
}
