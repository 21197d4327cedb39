// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker/archive"
	"weir/internal/cluster/migrate/pack"
)

// An archive of an image waits in a file until all of it has come and was read once
// (archive.Survey). The engine gets it with one image, the ordered one, and without names.

// loadImage takes an image of at most so many bytes as another engine has saved it.
func (e *Engine) loadImage(ctx context.Context, o migrate.MoveSpec, r io.Reader) (pack.StreamSize, error) {
	dir, err := e.dataDir(ctx)
	if err != nil {
		return pack.StreamSize{}, err
	}
	f, err := os.CreateTemp(dir, "weir-"+filepath.Base(o.Move)+"-*.image")
	if err != nil {
		return pack.StreamSize{}, err
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }()
	limits, size, err := fill(f, dir, o, r)
	if err != nil {
		return size, err
	}
	image, err := archive.Survey(f, o.Container.ImageID, limits)
	if err != nil {
		return size, err
	}
	// The engine unpacks the archive before it makes layers of its contents.
	end, err := pack.Claim(dir, image.ArchiveBytes+image.LayerBytes)
	if err != nil {
		return size, err
	}
	defer end()
	if err := e.load(ctx, f, image); err != nil {
		return size, err
	}
	if found, err := e.client.ImageInspect(ctx, o.Container.ImageID); err != nil || found.ID != o.Container.ImageID {
		return size, errors.Join(failed("the archive from %s does not hold image %s", o.From, o.Container.ImageID), err)
	}
	return size, e.client.ImageTag(ctx, o.Container.ImageID, brought(o))
}

// fill writes a stream's archive into a file.
func fill(f *os.File, dir string, o migrate.MoveSpec, r io.Reader) (pack.StreamBounds, pack.StreamSize, error) {
	limits, err := pack.Room(dir, o.Limit(migrate.Part{Kind: migrate.PartImage}))
	if err != nil {
		return limits, pack.StreamSize{}, err
	}
	unpacked, size, err := pack.Unpack(r, limits)
	if err != nil {
		return limits, pack.StreamSize{}, err
	}
	defer unpacked.Close()
	_, err = io.Copy(f, unpacked)
	return limits, size(), err
}

// load hands an archive to the engine.
func (e *Engine) load(ctx context.Context, f io.ReadSeeker, image archive.Image) error {
	out, in := io.Pipe()
	go func() { in.CloseWithError(image.Write(f, in)) }()
	defer out.Close()
	answer, err := e.client.ImageLoad(ctx, out)
	if err != nil {
		return err
	}
	_, err = drain(answer.Body)
	return err
}

// dataDir returns the folder where the engine keeps its data, where there is room
// for images.
func (e *Engine) dataDir(ctx context.Context) (string, error) {
	p, err := e.place()
	if err != nil {
		return "", err
	}
	root, err := e.rootDir(ctx, p)
	if err != nil {
		return "", err
	}
	return p.file(root), nil
}
