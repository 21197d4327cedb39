// SPDX-License-Identifier: Apache-2.0

// Package cgroup knows where the cgroups of version 2 are, and which one a
// process is in.
//
// Example, a container with the host's network: /proc/4711/cgroup says
//
//	0::/system.slice/docker-3f1a....scope
//
// and cgroup2 is mounted at /sys/fs/cgroup, so the folder that stands for all of
// its processes is /sys/fs/cgroup/system.slice/docker-3f1a....scope.
//
// On a host that is booted with cgroups of version 1, cgroup2 may be mounted as
// well, but the processes are all in its root: there is nothing to tell them apart
// by. On a hybrid one (systemd keeps its units in /sys/fs/cgroup/unified) they are
// where they belong.
package cgroup

import (
	"os"
	"strconv"
	"strings"
)

// Mounts are the folders at which cgroup2 is mounted, in the order of
// /proc/self/mounts; none if it is not.
func Mounts() []string {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	return mounts(string(text))
}

func mounts(table string) []string {
	var list []string
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "cgroup2" {
			list = append(list, unescape(fields[1]))
		}
	}
	return list
}

// unescape undoes what the kernel does to blanks in paths, as in "\040".
func unescape(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '\\' && i+4 <= len(path) {
			if code, err := strconv.ParseUint(path[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// Of reads the path of a process's cgroup of version 2, below the mount, out of
// the text of /proc/PID/cgroup. It is "/" for the root, where the processes of a
// host with version 1 are, and "" if cgroup2 is not mounted at all.
func Of(text string) string {
	for line := range strings.Lines(text) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			// "(deleted)" follows the path of a cgroup that was removed, which a
			// process that runs is never in.
			return strings.TrimSuffix(strings.TrimRight(path, "\n"), " (deleted)")
		}
	}
	return ""
}
