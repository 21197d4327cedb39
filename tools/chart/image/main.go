// SPDX-License-Identifier: Apache-2.0

// Command image makes an OCI image out of folders that are its root file system, one for each
// architecture, without a daemon, and writes it as an archive (OCI image layout in a tar):
//
//	image -out weir.tar -version v1.2 -time 1764000000 amd64=root-amd64 arm64=root-arm64
//
// docker load takes the archive as well. The command prints the digest of the index. The same
// files, version and time give the same bytes: names are sorted, owners are 0, modes are 0755 and
// 0644, times are the given one.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	out := flag.String("out", "", "`FILE` to write")
	version := flag.String("version", "", "`VERSION` of the programs, the image's tag")
	epoch := flag.Int64("time", 0, "`SECONDS` since 1970 of the image and its files")
	flag.Parse()
	digest, err := run(*out, *version, time.Unix(*epoch, 0).UTC(), flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "image: "+err.Error())
		os.Exit(1)
	}
	fmt.Println(digest)
}

// run writes the archive and returns the digest of the index.
func run(out, version string, at time.Time, roots []string) (v1.Hash, error) {
	if out == "" || version == "" || len(roots) == 0 {
		return v1.Hash{}, fmt.Errorf("-out, -version and one ARCH=FOLDER at least are needed")
	}
	index, err := build(version, at, roots)
	if err != nil {
		return v1.Hash{}, err
	}
	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, err
	}
	folder, err := os.MkdirTemp("", "weir-oci-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer os.RemoveAll(folder)
	l, err := layout.Write(folder, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := l.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version})); err != nil {
		return v1.Hash{}, err
	}
	if err := writeDockerManifest(folder, version, index); err != nil {
		return v1.Hash{}, err
	}
	file, err := os.Create(out)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := pack(file, folder, at); err != nil {
		file.Close()
		return v1.Hash{}, err
	}
	return digest, file.Close()
}

// writeDockerManifest writes what docker load reads, which knows OCI layouts only where the engine
// keeps images in containerd: the tags of the image of each architecture. One image alone is
// weir:VERSION and weir:latest, several are weir:VERSION-ARCH.
func writeDockerManifest(folder, version string, index v1.ImageIndex) error {
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	type entry struct {
		Config           string
		RepoTags, Layers []string
	}
	var entries []entry
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			return err
		}
		parts, err := image.Manifest()
		if err != nil {
			return err
		}
		e := entry{Config: blob(parts.Config.Digest), RepoTags: []string{"weir:" + version, "weir:latest"}}
		if len(manifest.Manifests) > 1 {
			e.RepoTags = []string{"weir:" + version + "-" + m.Platform.Architecture}
		}
		for _, layer := range parts.Layers {
			e.Layers = append(e.Layers, blob(layer.Digest))
		}
		entries = append(entries, e)
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "manifest.json"), text, 0o644)
}

// blob returns the file of a blob in an OCI layout.
func blob(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

// build returns the index with an image for each ARCH=FOLDER.
func build(version string, at time.Time, roots []string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, pair := range roots {
		arch, root, named := strings.Cut(pair, "=")
		if !named {
			return nil, fmt.Errorf("%q: write ARCH=FOLDER", pair)
		}
		image, err := imageOf(version, arch, root, at)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	return index, nil
}

// imageOf returns the image of one architecture, with one layer and nothing below it.
func imageOf(version, arch, root string, at time.Time) (v1.Image, error) {
	var files bytes.Buffer
	if err := pack(&files, root, at); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: arch, Created: v1.Time{Time: at},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Env: []string{"PATH=/"}, WorkingDir: "/", Entrypoint: []string{"/weir"}, Cmd: []string{"version"}, Labels: map[string]string{
			"org.opencontainers.image.title": "weir", "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)",
		}}})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: at}, CreatedBy: "weir " + version}})
}

// pack writes the regular files and folders of a root as a tar archive. Anything else is an error.
func pack(w io.Writer, root string, at time.Time) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h := &tar.Header{Name: filepath.ToSlash(name), ModTime: at, Mode: 0o644, Typeflag: tar.TypeReg, Size: info.Size(), Format: tar.FormatUSTAR}
		switch {
		case d.IsDir():
			h.Name, h.Mode, h.Typeflag, h.Size = h.Name+"/", 0o755, tar.TypeDir, 0
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is %v; only files and folders go into the image", path, info.Mode())
		case info.Mode()&0o100 != 0:
			h.Mode = 0o755
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(t, file)
		return err
	})
	if err != nil {
		return err
	}
	return t.Close()
}
