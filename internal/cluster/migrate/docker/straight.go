// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// straight returns an error if a path of the daemon's leads over a symbolic link,
// which another container with the same mount may have made, to wherever it likes.
func (p place) straight(source string) error {
	root, err := unix.Open(p.file("/"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	f, err := unix.Openat2(root, strings.TrimPrefix(path.Clean(source), "/")+"/.", &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_IN_ROOT})
	if errors.Is(err, unix.ENOTDIR) { // a file
		f, err = unix.Openat2(root, strings.TrimPrefix(path.Clean(source), "/"), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_IN_ROOT})
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil // Lacking says so
	case errors.Is(err, unix.ELOOP):
		return errors.New("a symbolic link is on the way")
	case err != nil:
		return err
	}
	return unix.Close(f)
}
