// SPDX-License-Identifier: Apache-2.0

// Package capable says whether processes may administer networks.
//
// Example: of a container whose process 4711 has CAP_NET_ADMIN in its bounding set, and the host's
// user namespace, HostAdmin("/proc", 4711) is true.
//
// What it does not do: say what a process may do by other capabilities.
package capable

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/base/cgroup"
)

// HostAdmin reports whether a process may have CAP_NET_ADMIN in the user namespace of this
// program, the host's.
func HostAdmin(proc string, pid int) bool {
	if !NetAdmin(proc, pid) {
		return false
	}
	its, err := os.Readlink(filepath.Join(proc, strconv.Itoa(pid), "ns/user"))
	ours, failed := os.Readlink("/proc/self/ns/user")
	return err == nil && failed == nil && its == ours
}

// NetAdmin reports whether a process may have CAP_NET_ADMIN.
func NetAdmin(proc string, pid int) bool {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "status"))
	if err != nil {
		return false // it has just ended
	}
	for line := range strings.Lines(string(text)) {
		if mask, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			may, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err == nil && may&(1<<unix.CAP_NET_ADMIN) != 0
		}
	}
	return false
}

// Bounds of what is asked of a workload's processes at once. A pod may have some 10,000.
const (
	mostFolders   = 64
	mostProcesses = 64 // of a folder
)

// AnyOf reports whether a process in a cgroup, or in one below it, is as asked. Of many some are
// looked at, others the next time.
func AnyOf(proc, folder string, is func(proc string, pid int) bool) (found bool) {
	folders := 0
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil // it has gone meanwhile, or is a file
		}
		found = slices.ContainsFunc(cgroup.Some(path, mostProcesses), func(pid int) bool { return is(proc, pid) })
		if folders++; found || folders == mostFolders {
			return fs.SkipAll
		}
		return nil
	})
	return found
}
