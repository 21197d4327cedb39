// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/docker/docker/api/types/image"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/pack"
)

// Receive takes a part of a container.
func (e *Engine) Receive(ctx context.Context, p migrate.Part, o migrate.Order, r io.Reader) (migrate.Outcome, error) {
	size, err := e.receive(ctx, p, o, r)
	return migrate.Outcome{Bytes: size.Packed, Raw: size.Raw}, definite(ctx, err)
}

func (e *Engine) receive(ctx context.Context, p migrate.Part, o migrate.Order, r io.Reader) (size pack.Size, err error) {
	switch p.Kind {
	case migrate.PartImage:
		size, err := unpacked(r, func(archive io.Reader) (io.ReadCloser, error) {
			answer, err := e.client.ImageLoad(ctx, archive)
			return answer.Body, err
		})
		if err == nil {
			err = e.client.ImageTag(ctx, o.Container.ImageID, brought(o))
		}
		return size, err
	case migrate.PartExport:
		return unpacked(r, func(archive io.Reader) (io.ReadCloser, error) {
			return e.client.ImageImport(ctx, image.ImportSource{Source: archive, SourceName: "-"}, committed(o), image.ImportOptions{})
		})
	}
	id, running, err := e.mustCopy(ctx, o)
	if err != nil {
		return size, err
	}
	if running {
		return size, refused("the copy of %s runs already", o.Container.Name)
	}
	f, err := e.folder(ctx, id, o.Move)
	if err != nil {
		return size, err
	}
	switch p.Kind {
	case migrate.PartMemory:
		if err := errors.Join(os.RemoveAll(f.file(f.before)), os.MkdirAll(f.file(f.before), 0o700)); err != nil {
			return size, err
		}
		return pack.Read(r, f.file(f.before))
	case migrate.PartCheckpoint:
		if err := errors.Join(f.removeCheckpoint(), os.MkdirAll(f.file(f.images), 0o700)); err != nil {
			return size, err
		}
		if size, err = pack.Read(r, f.file(f.images)); err != nil {
			return size, err
		}
		if err := f.adopt(o.Container.ID, id); err != nil {
			return size, err
		}
		return size, f.setComplete()
	case migrate.PartLayer:
		copied, err := e.client.ContainerInspect(ctx, id)
		if err != nil {
			return size, err
		}
		upper, err := upperDir(copied)
		if err != nil {
			return size, err
		}
		return replace(r, f.file(upper))
	case migrate.PartVolume:
		v, err := e.client.VolumeInspect(ctx, p.Name)
		if err != nil {
			return size, err
		}
		if v.Labels[migrate.MoveLabel] != o.Move {
			return size, refused("volume %s is somebody else's", p.Name)
		}
		return replace(r, f.file(v.Mountpoint))
	}
	return size, refused("a Docker container has no part %s", p)
}

// unpacked hands a stream's archive to the engine.
func unpacked(r io.Reader, give func(io.Reader) (io.ReadCloser, error)) (pack.Size, error) {
	archive, size, err := pack.Unpack(r)
	if err != nil {
		return pack.Size{}, err
	}
	defer archive.Close()
	answer, err := give(archive)
	if err != nil {
		return size(), err
	}
	_, err = drain(answer)
	return size(), err
}

// replace unpacks a stream into a folder that it empties first: the engine may have
// put something there, such as the image's files into a new volume.
func replace(r io.Reader, folder string) (pack.Size, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return pack.Size{}, err
	}
	var errs []error
	for _, entry := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(folder, entry.Name())))
	}
	if err := errors.Join(errs...); err != nil {
		return pack.Size{}, err
	}
	return pack.Read(r, folder)
}
