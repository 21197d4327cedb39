// SPDX-License-Identifier: Apache-2.0

// Package disk says of a folder whether files can be written in it. Nothing is written to find
// out, so that it can be asked every second.
//
//	disk.Trouble("/var/lib/weir") // "the disk is full: 0.0 of 5.2 MB are free"
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// least is how many bytes must be free: files are replaced whole, so that there are two of each
// for a moment. Of a small disk it is a hundredth.
const least = 1 << 20

// Trouble returns why nothing can be written in a folder, "" if something can. A folder that is
// not there is judged by the one that it would be made in.
func Trouble(folder string) string {
	var s unix.Statfs_t
	err := unix.Statfs(folder, &s)
	for errors.Is(err, fs.ErrNotExist) && folder != filepath.Dir(folder) {
		folder = filepath.Dir(folder)
		err = unix.Statfs(folder, &s)
	}
	if err != nil {
		return err.Error()
	}
	free := s.Bavail
	if os.Geteuid() == 0 {
		free = s.Bfree // what is reserved is reserved for root
	}
	return judge(space{readOnly: s.Flags&unix.ST_RDONLY != 0, total: s.Blocks * uint64(s.Bsize), free: free * uint64(s.Bsize), files: s.Files, freeFiles: s.Ffree})
}

// space is what a file system has, in bytes and in files; total or files is 0 where that is not
// bounded.
type space struct {
	readOnly         bool
	total, free      uint64
	files, freeFiles uint64
}

func judge(s space) string {
	switch {
	case s.readOnly:
		return "the file system is mounted read-only"
	case s.total > 0 && s.free < min(least, s.total/100):
		return fmt.Sprintf("the disk is full: %.1f of %.1f MB are free", float64(s.free)/1e6, float64(s.total)/1e6)
	case s.files > 0 && s.freeFiles == 0:
		return fmt.Sprintf("the disk has no room for another file: all %d inodes are used", s.files)
	}
	return ""
}
