// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"weir/internal/cluster/migrate/docker/cgroup"
	"weir/internal/cluster/migrate/docker/daemon"
)

// folder is the place of a container's checkpoint: in the container's own folder, so
// that it goes where the container goes. The paths are the daemon's.
type folder struct {
	place
	own        string // this migration's
	before     string // CRIU's, of the memory that was copied ahead
	images     string // CRIU's
	checkpoint string // what Docker is told to restore
	name       string // by which Docker is told
}

const (
	beforeDir  = "before"
	parentLink = "parent" // in a checkpoint: where the memory is that it lacks
)

func (e *Engine) folder(ctx context.Context, id, move string) (folder, error) {
	p, err := e.place()
	if err != nil {
		return folder{}, err
	}
	root, err := e.rootDir(ctx, p)
	if err != nil {
		return folder{}, err
	}
	return folderIn(p, root, id, move)
}

// folderIn returns the folder below the daemon's. The names come out of an order: they
// have to be names, not ways out of the folder.
func folderIn(p place, root, id, move string) (folder, error) {
	if !isID(id) || move == "" || strings.ContainsAny(move, "/\x00") {
		return folder{}, refused("%.100q is no id of a container, or %.100q none of a move", id, move)
	}
	container := filepath.Join(root, "containers", id)
	f := folder{place: p, own: filepath.Join(container, "weir-"+move), name: "weir-" + move}
	f.before, f.images = filepath.Join(f.own, beforeDir), filepath.Join(f.own, "images")
	f.checkpoint = filepath.Join(container, "checkpoints", f.name)
	return f, nil
}

// complete says whether the checkpoint is whole.
func (f folder) complete() bool {
	_, err := os.Stat(f.file(filepath.Join(f.own, "complete")))
	return err == nil
}

// dumped says whether CRIU had written all of a checkpoint, of which nothing says that it is
// whole because the agent or CRIU was killed meanwhile. CRIU writes its inventory last and ends
// the processes after that. A folder with memory copied ahead is another.
func (f folder) dumped() bool {
	_, err := os.Stat(f.file(filepath.Join(f.images, "inventory.img")))
	return err == nil
}

func (f folder) setComplete() error {
	return os.WriteFile(f.file(filepath.Join(f.own, "complete")), nil, 0o600)
}

// removeCheckpoint makes way for another; what was copied ahead of it stays.
func (f folder) removeCheckpoint() error {
	return errors.Join(os.RemoveAll(f.file(f.images)), os.RemoveAll(f.file(filepath.Join(f.own, "complete"))), os.RemoveAll(f.file(f.checkpoint)))
}

func (f folder) remove() error {
	return errors.Join(os.RemoveAll(f.file(f.own)), os.RemoveAll(f.file(f.checkpoint)))
}

// cgroupImage is CRIU's file about cgroups. It has some kilobytes, and is the only one
// of another node's that is read into memory.
const (
	cgroupImage    = "cgroup.img"
	maxCgroupImage = 1 << 20 // bytes
)

// adopt makes a container's checkpoint another's, whose cgroup is group (package cgroup says why).
func (f folder) adopt(was, is, group string) error {
	image := f.file(filepath.Join(f.images, cgroupImage))
	text, err := os.ReadFile(image)
	if errors.Is(err, os.ErrNotExist) {
		return nil // dumped without cgroups
	}
	if err == nil {
		text, err = cgroup.Move(text, was, is, group)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(image, text, 0o600)
}

// offer makes the folder that Docker is told to restore: the small files, and links
// to the large ones.
func (f folder) offer() error {
	if err := os.RemoveAll(f.file(f.checkpoint)); err != nil {
		return err
	}
	if err := os.MkdirAll(f.file(f.checkpoint), 0o700); err != nil {
		return err
	}
	list, err := os.ReadDir(f.file(f.images))
	if err != nil {
		return err
	}
	for _, entry := range list {
		info, err := entry.Info()
		if err != nil {
			return err
		}
		from, to := filepath.Join(f.images, entry.Name()), filepath.Join(f.checkpoint, entry.Name())
		if entry.Name() == parentLink {
			from = f.before
		}
		if info.Size() > smallImage || entry.Name() == parentLink {
			err = os.Symlink(upwards+strings.TrimPrefix(from, "/"), f.file(to))
		} else {
			err = os.Link(f.file(from), f.file(to))
		}
		if err != nil {
			return err
		}
	}
	return os.WriteFile(f.file(filepath.Join(f.checkpoint, f.name)), nil, 0o600) // by which sweep knows it
}

// sweep removes what containerd leaves of a checkpoint in its temporary folder.
func (f folder) sweep(containerd int) {
	for _, dir := range []string{daemon.Environ(containerd, "XDG_RUNTIME_DIR", ""), daemon.Environ(containerd, "TMPDIR", ""), "/tmp"} {
		if dir == "" {
			continue
		}
		left, _ := filepath.Glob(f.file(filepath.Join(dir, "ctrd-checkpoint*", f.name)))
		for _, mark := range left {
			_ = os.RemoveAll(filepath.Dir(mark)) // what stays is a few hundred kilobytes
		}
	}
}

// tidy removes the checkpoint of a container that runs again, and what its restore
// has left.
func (e *Engine) tidy(ctx context.Context, id, move string) error {
	f, err := e.folder(ctx, id, move)
	if err != nil {
		return err
	}
	f.sweep(e.containerd(ctx, f.place, id))
	return f.remove()
}

// containerd returns the process that a running container's shim belongs to; the
// daemon's own if it cannot be found.
func (e *Engine) containerd(ctx context.Context, p place, id string) int {
	r, err := e.client.ContainerInspect(ctx, id)
	if err != nil || r.State.Pid == 0 {
		return p.pid
	}
	s, err := daemon.ShimOf(p.file, r.State.Pid)
	if err != nil {
		return p.pid
	}
	pid, err := daemon.Listener(p.file(s.Address))
	if err != nil {
		return p.pid
	}
	return pid
}
