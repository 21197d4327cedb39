// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/pack"
)

// An archive of an image is a list of images with names for each: "docker load" would
// give a name such as nginx:latest, which means another image here, to what a hostile
// node has sent. So the archive waits in a file until all of it has come, and the
// engine gets it with one image, the ordered one, and without names.

// archived is an entry of an archive's manifest.json, as far as it is passed on.
type archived struct {
	Config string
	Layers []string
}

const (
	manifestFile  = "manifest.json"
	manifestBytes = 1 << 20
)

// loadImage takes an image of at most limit bytes as another engine has saved it.
func (e *Engine) loadImage(ctx context.Context, o migrate.Order, limit int64, r io.Reader) (pack.Size, error) {
	f, err := e.scratch(ctx, o.Move)
	if err != nil {
		return pack.Size{}, err
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }()
	archive, size, err := pack.Unpack(r, limit)
	if err != nil {
		return pack.Size{}, err
	}
	_, err = io.Copy(f, archive)
	archive.Close()
	if err != nil {
		return size(), err
	}
	image, err := onlyImage(f, o.Container.ImageID)
	if err != nil {
		return size(), err
	}
	out, in := io.Pipe()
	go func() { in.CloseWithError(nameless(f, in, image)) }()
	defer out.Close()
	answer, err := e.client.ImageLoad(ctx, out)
	if err != nil {
		return size(), err
	}
	if _, err := drain(answer.Body); err != nil {
		return size(), err
	}
	if found, err := e.client.ImageInspect(ctx, o.Container.ImageID); err != nil || found.ID != o.Container.ImageID {
		return size(), errors.Join(failed("what has come is not image %s", o.Container.ImageID), err)
	}
	return size(), e.client.ImageTag(ctx, o.Container.ImageID, brought(o))
}

// scratch is a file where the engine keeps its data, where there is room for images.
func (e *Engine) scratch(ctx context.Context, move string) (*os.File, error) {
	p, err := e.place()
	if err != nil {
		return nil, err
	}
	root, err := e.rootDir(ctx, p)
	if err != nil {
		return nil, err
	}
	return os.CreateTemp(p.file(root), "weir-"+filepath.Base(move)+"-*.image")
}

// onlyImage reads the manifest of an archive, which must be about one image, this one.
func onlyImage(f io.ReadSeeker, id string) (archived, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return archived{}, err
	}
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return archived{}, refused("the archive of image %s has no %s", id, manifestFile)
		case err != nil:
			return archived{}, refused("the archive of image %s cannot be read: %v", id, err)
		case path.Clean(h.Name) != manifestFile || h.Typeflag != tar.TypeReg:
			continue
		}
		var list []archived
		if err := json.NewDecoder(io.LimitReader(t, manifestBytes)).Decode(&list); err != nil {
			return archived{}, refused("the archive of image %s: %s: %v", id, manifestFile, err)
		}
		if len(list) != 1 {
			return archived{}, refused("the archive holds %d images; one was ordered, %s", len(list), id)
		}
		if name := strings.TrimSuffix(path.Base(list[0].Config), ".json"); "sha256:"+name != id {
			return archived{}, refused("the archive holds image %.80s; %s was ordered", name, id)
		}
		return list[0], nil
	}
}

// nameless copies an archive without what gives names to images.
func nameless(f io.ReadSeeker, w io.Writer, image archived) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch path.Clean(h.Name) {
		case manifestFile, "repositories", "index.json", "oci-layout":
			continue
		}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink: // layers that two images share are links
		default:
			return fmt.Errorf("entry %s is of unknown type %q", h.Name, h.Typeflag)
		}
		if !filepath.IsLocal(h.Name) || h.Typeflag == tar.TypeSymlink && !filepath.IsLocal(path.Join(path.Dir(h.Name), h.Linkname)) {
			return fmt.Errorf("entry %s leads out of the archive", h.Name)
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, t); err != nil {
			return err
		}
	}
	text, err := json.Marshal([]archived{image})
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: manifestFile, Mode: 0o644, Size: int64(len(text))}); err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	return out.Close()
}
