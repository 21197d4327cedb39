// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane"
)

// DefaultBPFFS is where BPF objects are pinned if Options.BPFFS is empty.
const DefaultBPFFS = "/sys/fs/bpf/weir"

// bpffsMount is where a BPF file system is usually mounted.
const bpffsMount = "/sys/fs/bpf"

// MountBPFFS mounts the BPF file system at its usual place, where it is not mounted yet
// (systemd does; containers, small systems and ip netns exec do not). mounted says that it was
// not: what is pinned there is lost with the mount namespace. Elsewhere that is left to the
// person who chose the place.
func MountBPFFS(opts dataplane.Options) (mounted bool, err error) {
	top := pinTop(opts)
	there, err := onBPFFS(top)
	if err != nil || there {
		return false, err
	}
	if !strings.HasPrefix(filepath.Clean(top), bpffsMount+"/") {
		return false, fmt.Errorf("%s is not on a BPF file system; mount one there with: mount -t bpf bpf %s", top, filepath.Dir(top))
	}
	if err := unix.Mount("bpf", bpffsMount, "bpf", 0, "mode=0700"); err != nil {
		return false, explain("mount the BPF file system at "+bpffsMount, err)
	}
	return true, nil
}

// pinTop is the folder that all pinned objects are in.
func pinTop(opts dataplane.Options) string { return cmp.Or(opts.BPFFS, DefaultBPFFS) }

// PinDir returns the folder sub ("" for the top) for pinned BPF objects and
// makes it if need be, on a BPF file system that MountBPFFS mounts if need be.
func PinDir(opts dataplane.Options, sub string) (string, error) {
	if _, err := MountBPFFS(opts); err != nil {
		return "", err
	}
	dir := filepath.Join(pinTop(opts), sub)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", explain("make the folder for pinned BPF objects", err)
	}
	return dir, nil
}

// PinDir is PinDir for objects that belong to devices of c's network namespace.
// Several namespaces share one BPF file system, and each numbers its devices from
// 1 on.
func (c *Conn) PinDir(opts dataplane.Options, sub string) (string, error) {
	return PinDir(opts, filepath.Join(ofNetns(c.inode), sub))
}

// ofNetns is the folder of a network namespace.
func ofNetns(inode uint64) string { return fmt.Sprintf("netns-%d", inode) }

// RemovePinDir removes a folder of PinDir's and those above it that hold nothing
// else. A folder that is not empty belongs to others.
func RemovePinDir(dir string) {
	for range 3 { // sub, namespace, top
		if os.Remove(dir) != nil {
			return
		}
		dir = filepath.Dir(dir)
	}
}

// onBPFFS looks at the nearest parent of path that exists.
func onBPFFS(path string) (bool, error) {
	for {
		var st unix.Statfs_t
		err := unix.Statfs(path, &st)
		if err == nil {
			return uint32(st.Type) == unix.BPF_FS_MAGIC, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return false, explain("look for a BPF file system at "+path, err)
		}
		path = filepath.Dir(path)
	}
}
