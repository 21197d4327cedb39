// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker/cgroup"
	"weir/internal/cluster/migrate/pack"
)

// Receive takes a part of a container.
func (e *Engine) Receive(ctx context.Context, p migrate.Part, o migrate.MoveSpec, r io.Reader) (migrate.StepOutcome, error) {
	size, err := e.receive(ctx, p, o, r)
	return migrate.StepOutcome{Bytes: size.Packed, Raw: size.Raw}, definite(ctx, err)
}

func (e *Engine) receive(ctx context.Context, p migrate.Part, o migrate.MoveSpec, r io.Reader) (size pack.StreamSize, err error) {
	switch p.Kind {
	case migrate.PartImage:
		return e.loadImage(ctx, o, r)
	case migrate.PartExport:
		dir, err := e.dataDir(ctx)
		if err != nil {
			return size, err
		}
		limits, err := pack.Room(dir, o.Limit(p))
		if err != nil {
			return size, err
		}
		return unpacked(r, limits, func(archive io.Reader) (io.ReadCloser, error) {
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
		return f.takeMemory(r, o.Limit(p))
	case migrate.PartCheckpoint:
		group, err := groupOf(ctx, e.client, f.place, id)
		if err != nil {
			return size, err
		}
		return f.takeCheckpoint(r, o.Limit(p), o.Container.ID, id, group)
	case migrate.PartLayer:
		copied, err := e.client.ContainerInspect(ctx, id)
		if err != nil {
			return size, err
		}
		upper, err := upperDir(copied)
		if err != nil {
			return size, err
		}
		return replace(r, f.file(upper), o.Limit(p))
	case migrate.PartVolume:
		v, err := e.client.VolumeInspect(ctx, p.Name)
		if err != nil {
			return size, err
		}
		if v.Labels[migrate.MoveLabel] != o.Move {
			return size, refused("volume %s belongs to another container or move", p.Name)
		}
		return replace(r, f.file(v.Mountpoint), o.Limit(p))
	}
	return size, refused("a Docker container has no part %s", p)
}

// unpacked hands a stream's archive, which is one layer, to the engine within the limits.
func unpacked(r io.Reader, limits pack.StreamBounds, give func(io.Reader) (io.ReadCloser, error)) (pack.StreamSize, error) {
	archive, size, err := pack.Unpack(r, limits)
	if err != nil {
		return pack.StreamSize{}, err
	}
	contents := pack.Contents{Limits: limits}
	layer := contents.Watch(archive)
	defer layer.Close()
	answer, err := give(layer)
	if err != nil {
		return size(), err
	}
	_, err = drain(answer)
	return size(), err
}

// replace unpacks a stream into a folder that it empties first: the engine may have
// put something there, such as the image's files into a new volume.
func replace(r io.Reader, folder string, limit int64) (pack.StreamSize, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return pack.StreamSize{}, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return pack.StreamSize{}, err
	}
	var errs []error
	for _, entry := range entries {
		errs = append(errs, root.RemoveAll(entry.Name()))
	}
	if err := errors.Join(errs...); err != nil {
		return pack.StreamSize{}, err
	}
	return take(r, folder, limit, nil)
}

// take unpacks a stream of at most limit bytes, and of no more than the file system has
// room for.
func take(r io.Reader, folder string, limit int64, accept func(*tar.Header) error) (pack.StreamSize, error) {
	limits, err := pack.Room(folder, limit)
	if err != nil {
		return pack.StreamSize{}, err
	}
	limits.Accept = accept
	return pack.Read(r, folder, limits)
}

// takeMemory takes what was copied ahead of a checkpoint.
func (f folder) takeMemory(r io.Reader, limit int64) (pack.StreamSize, error) {
	if err := errors.Join(os.RemoveAll(f.file(f.before)), os.MkdirAll(f.file(f.before), 0o700)); err != nil {
		return pack.StreamSize{}, err
	}
	return take(r, f.file(f.before), limit, onlyImages)
}

// takeCheckpoint takes the checkpoint of a container, for another in a cgroup.
func (f folder) takeCheckpoint(r io.Reader, limit int64, was, is, group string) (pack.StreamSize, error) {
	if err := errors.Join(f.removeCheckpoint(), os.MkdirAll(f.file(f.images), 0o700)); err != nil {
		return pack.StreamSize{}, err
	}
	size, err := take(r, f.file(f.images), limit, onlyImages)
	if err == nil {
		err = f.adopt(was, is, group)
	}
	if err == nil {
		err = f.setComplete()
	}
	return size, err
}

// groupOf returns the cgroup in which the engine expects a container, "" where that is not known or
// the runtime tells CRIU itself.
func groupOf(ctx context.Context, engine *client.Client, p place, id string) (string, error) {
	info, err := engine.Info(ctx)
	if err != nil || info.CgroupVersion != "2" {
		return "", err
	}
	r, err := engine.ContainerInspect(ctx, id)
	if err != nil {
		return "", err
	}
	return cgroup.In(p.pid, p.file, info.CgroupDriver, r.HostConfig.CgroupParent, id), nil
}

// onlyImages accepts what CRIU makes, and nothing that leads elsewhere when it is read
// or written: files side by side, and one link to those that were copied ahead.
func onlyImages(h *tar.Header) error {
	name := path.Clean(h.Name)
	switch {
	case name == cgroupImage && h.Size > maxCgroupImage:
		return fmt.Errorf("%d bytes; the cgroups of a checkpoint take at most %d", h.Size, maxCgroupImage)
	case h.Typeflag == tar.TypeDir && name == ".", h.Typeflag == tar.TypeReg && !strings.Contains(name, "/"):
		return nil
	case h.Typeflag == tar.TypeSymlink && name == parentLink && h.Linkname == "../"+beforeDir:
		return nil
	}
	return errors.New("no checkpoint has such a file")
}
