// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unheld is what is not held of a workload that is known by its cgroup: a packet that it
// forwards, from a namespace that it makes inside its own, has no socket to know it by. Only a
// workload with CAP_NET_ADMIN and a device of its own can forward.
func unheld(network string) string {
	return fmt.Sprintf("%s and it has CAP_NET_ADMIN: packets that it forwards or redirects count as the host's, or as another workload's; "+
		"take the capability from it, or give it a network with veths", network)
}

// reaching is what is not held of a workload with veths that has CAP_NET_ADMIN in the host's
// user namespace: the kernel lets it make a macvlan on a device of another network namespace
// whose user namespace is the same (IFLA_LINK_NETNSID). Packets of its sockets count as its own.
const reaching = "it has CAP_NET_ADMIN without a user namespace of its own, and so over the devices of the host: packets that it forwards or redirects " +
	"by a device that it makes there count as the host's, or as another workload's; take the capability from it, or give it a user namespace"

// hostAdmin reports whether a process may have CAP_NET_ADMIN in the user namespace of this
// program, the host's.
func hostAdmin(proc string, pid int) bool {
	if !netAdmin(proc, pid) {
		return false
	}
	its, err := os.Readlink(filepath.Join(proc, strconv.Itoa(pid), "ns/user"))
	ours, failed := os.Readlink("/proc/self/ns/user")
	return err == nil && failed == nil && its == ours
}

// netAdmin reports whether a process may have CAP_NET_ADMIN.
func netAdmin(proc string, pid int) bool {
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

// anyOf reports whether a process in a cgroup, or in one below it, is as asked.
func anyOf(proc, folder string, is func(proc string, pid int) bool) (found bool) {
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "cgroup.procs" {
			return nil // it has gone meanwhile
		}
		text, _ := os.ReadFile(path)
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil && is(proc, pid) {
				found = true
				return fs.SkipAll
			}
		}
		return nil
	})
	return found
}
