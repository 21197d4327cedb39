// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// root makes a root file system, the files in the given order.
func root(t *testing.T, mode os.FileMode, names ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range names {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("the file "+name), mode); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestImage: the archive is an image that the library finds valid, with the files as they should
// be; another order, other modes and another time of the files give the same bytes.
func TestImage(t *testing.T) {
	at := time.Unix(1764000000, 0).UTC()
	one, two := filepath.Join(t.TempDir(), "one.tar"), filepath.Join(t.TempDir(), "two.tar")
	first, err := run(one, "v1", at, []string{"amd64=" + root(t, 0o755, "weir", "sbom/weir.spdx.json"), "arm64=" + root(t, 0o755, "weir")})
	if err != nil {
		t.Fatal(err)
	}
	second, err := run(two, "v1", at, []string{"amd64=" + root(t, 0o700, "sbom/weir.spdx.json", "weir"), "arm64=" + root(t, 0o700, "weir")})
	if err != nil {
		t.Fatal(err)
	}
	a, errA := os.ReadFile(one)
	b, errB := os.ReadFile(two)
	if errA != nil || errB != nil || first != second || !bytes.Equal(a, b) {
		t.Fatalf("%v is not %v; %v, %v", first, second, errA, errB)
	}
	folder := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(a)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(filepath.Join(folder, h.Name), 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(filepath.Join(folder, h.Name), data, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(l); err != nil {
		t.Fatal(err)
	}
	index, err := l.ImageIndex(first)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("platforms %q", platforms)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	files, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	var got []string
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %o %d:%d %d", h.Name, h.Mode, h.Uid, h.Gid, h.ModTime.Unix()))
	}
	if want := []string{"sbom/ 755 0:0 1764000000", "sbom/weir.spdx.json 755 0:0 1764000000", "weir 755 0:0 1764000000"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDockerManifest: docker load finds a configuration and layers in the archive, and the tags
// that the documentation names.
func TestDockerManifest(t *testing.T) {
	one, two := "amd64="+root(t, 0o755, "weir"), "arm64="+root(t, 0o755, "weir")
	for _, tt := range []struct {
		roots []string
		tags  string
	}{
		{[]string{one}, "[[weir:v1 weir:latest]]"},
		{[]string{one, two}, "[[weir:v1-amd64] [weir:v1-arm64]]"},
	} {
		out := filepath.Join(t.TempDir(), "image.tar")
		if _, err := run(out, "v1", time.Unix(1764000000, 0).UTC(), tt.roots); err != nil {
			t.Fatal(err)
		}
		files := contents(t, out)
		var entries []struct {
			Config           string
			RepoTags, Layers []string
		}
		if err := json.Unmarshal(files["manifest.json"], &entries); err != nil {
			t.Fatal(err)
		}
		var tags [][]string
		for _, e := range entries {
			tags = append(tags, e.RepoTags)
			for _, file := range append(e.Layers, e.Config) {
				if len(files[file]) == 0 {
					t.Errorf("%s is not in the archive", file)
				}
			}
			if !bytes.Contains(files[e.Config], []byte(`"Entrypoint":["/weir"]`)) {
				t.Errorf("configuration %s", files[e.Config])
			}
		}
		if got := fmt.Sprint(tags); got != tt.tags {
			t.Errorf("tags %s, want %s", got, tt.tags)
		}
	}
}

// contents returns the files of a tar archive.
func contents(t *testing.T, name string) map[string][]byte {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefused: a symbolic link and a wrong argument are no image.
func TestRefused(t *testing.T) {
	folder := root(t, 0o644, "weir")
	if err := os.Symlink("weir", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "x.tar")
	for want, args := range map[string][]string{
		"only files and folders go into the image": {"amd64=" + folder},
		"write ARCH=FOLDER":                        {folder},
		"are needed":                               nil,
		"no such file":                             {"amd64=/nowhere/at/all"},
	} {
		if _, err := run(out, "v1", time.Unix(0, 0), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
