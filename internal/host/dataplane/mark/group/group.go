// SPDX-License-Identifier: Apache-2.0

// Package group opens cgroups of version 2 for the programs of package mark: by their path, or by
// the id that a program, or a pin, knows them by.
//
// Example: /sys/fs/cgroup/system.slice/cron.service is two levels below the top, and its ID is the
// inode of that folder.
//
// What it does not do: attach anything.
package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	cgroups "weir/internal/base/cgroup"
	"weir/internal/host/dataplane"
)

// MaxLevels is WEIR_MAX_LEVELS in bpf/marking/owner.h. No workload's cgroup is further down: its
// source refuses it.
const MaxLevels = cgroups.MaxDepth + 1

// Group is an open cgroup of version 2. Its ID is the inode of its folder, for
// as long as the machine runs.
type Group struct {
	*os.File
	ID uint64
}

// Open opens the folder. The error wraps dataplane.ErrNoDevice if it is
// gone, and dataplane.ErrNoSupport if it is of version 1.
func Open(path string) (Group, error) {
	folder, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Group{}, fmt.Errorf("%w: there is no cgroup there", dataplane.ErrNoDevice)
	}
	if err != nil {
		return Group{}, err
	}
	var system unix.Statfs_t
	var stat unix.Stat_t
	err = errors.Join(unix.Fstatfs(int(folder.Fd()), &system), unix.Fstat(int(folder.Fd()), &stat))
	switch {
	case err != nil:
	case system.Type == unix.CGROUP_SUPER_MAGIC:
		err = fmt.Errorf("%w: this is a cgroup of version 1, which cannot mark packets; name the one under the cgroup2 mount (often /sys/fs/cgroup/unified), or boot with systemd.unified_cgroup_hierarchy=1", dataplane.ErrNoSupport)
	case system.Type != unix.CGROUP2_SUPER_MAGIC:
		err = errors.New("this is no cgroup; name a folder of the cgroup2 file system, such as /sys/fs/cgroup/system.slice/cron.service")
	}
	if err != nil {
		folder.Close()
		return Group{}, err
	}
	return Group{folder, stat.Ino}, nil
}

// Populated says whether a process is in a cgroup, or in one below it.
func Populated(path string) bool {
	text, err := os.ReadFile(filepath.Join(path, "cgroup.events"))
	return err != nil || strings.Contains(string(text), "populated 1") // the top has no such file
}

// Bounds of what is read of a cgroup. The processes of a container are in one namespace, unless
// one of them may make others, by a user namespace too, and has the first ones listed move there.
const (
	MostProcesses = 8
	mostFolders   = 64
)

// Processes returns some processes of a cgroup, or of the first one below that has any.
func Processes(folder string) (pids []int) {
	folders := 0
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil // it is gone, or a file
		}
		folders++
		if pids = cgroups.Some(path, MostProcesses); len(pids) > 0 || folders == mostFolders {
			return fs.SkipAll
		}
		return nil
	})
	return pids
}

// LevelBit has the bit of how far a cgroup is below the top, or of all where that is not known.
func LevelBit(path string) uint32 {
	switch level := levelOf(path); {
	case level < 0:
		return 1<<MaxLevels - 1
	case level < MaxLevels:
		return 1 << level
	}
	return 0
}

// levelOf is how far a cgroup is below the top of the hierarchy: 2 for
// /sys/fs/cgroup/system.slice/cron.service. It is -1 where the top is hidden, in a
// cgroup namespace.
func levelOf(path string) int {
	if !cgroups.FromTop() {
		return -1
	}
	for _, mount := range cgroups.Mounts() {
		if below, err := filepath.Rel(mount, path); err == nil && below != ".." && !strings.HasPrefix(below, "../") {
			if below == "." {
				return 0
			}
			return strings.Count(below, string(os.PathSeparator)) + 1
		}
	}
	return -1
}

// PathOf finds a cgroup by its id; the error wraps unix.ESTALE if it is gone. The kernel opens
// files of this file system by a handle that is nothing but the id (since Linux 5.5), where the
// agent may do that: it needs CAP_DAC_READ_SEARCH before Linux 6.11, and a filter of system calls
// that lets it. Elsewhere the folders are looked through, whose inodes are the ids.
func PathOf(id uint64) (string, error) {
	const fileIDKernfs = 0xfe
	for _, top := range cgroups.Mounts() {
		mount, err := os.Open(top)
		if err != nil {
			continue
		}
		handle := unix.NewFileHandle(fileIDKernfs, binary.NativeEndian.AppendUint64(nil, id))
		fd, err := unix.OpenByHandleAt(int(mount.Fd()), handle, unix.O_PATH|unix.O_DIRECTORY)
		mount.Close()
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			return folderByInode(top, id)
		}
		if err != nil {
			return "", fmt.Errorf("find cgroup %d: %w", id, err)
		}
		path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		unix.Close(fd)
		return path, err
	}
	return "", fmt.Errorf("find cgroup %d: no cgroup2 file system is mounted; mount it with: mount -t cgroup2 none /sys/fs/cgroup", id)
}

// folderByInode returns the folder below top with an inode's number; unix.ESTALE = there is
// none.
func folderByInode(top string, inode uint64) (found string, err error) {
	err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		var stat unix.Stat_t
		if err != nil || !entry.IsDir() || unix.Lstat(path, &stat) != nil {
			return nil // it has gone meanwhile
		}
		if stat.Ino == inode {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	if err == nil && found == "" {
		err = unix.ESTALE
	}
	if err != nil {
		return "", fmt.Errorf("find cgroup %d: %w", inode, err)
	}
	return found, nil
}
