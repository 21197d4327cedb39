// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"os"
	"slices"
	"strings"
)

// Controllers returns the folders at which the controllers of version 1 are mounted:
// "memory" at /sys/fs/cgroup/memory; none on a host that has version 2 alone.
func Controllers() map[string]string {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	return controllers(string(text))
}

// controllers has the other options of the mounts as well (rw, nosuid): no
// controller is called like one.
func controllers(table string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[2] != "cgroup" {
			continue
		}
		for option := range strings.SplitSeq(fields[3], ",") {
			if _, known := found[option]; !known { // a controller has one hierarchy, however often it is mounted
				found[option] = unescape(fields[1])
			}
		}
	}
	return found
}

// OfController reads the path of a process's cgroup of version 1 for a controller,
// below its mount, out of the text of /proc/PID/cgroup; "" if it has none.
func OfController(text, controller string) string {
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), ":")
		names, path, ok := strings.Cut(rest, ":")
		if ok && slices.Contains(strings.Split(names, ","), controller) {
			return strings.TrimSuffix(path, " (deleted)")
		}
	}
	return ""
}

// OfContainer returns the path of a container's cgroup, given that of one of its
// processes, which may be deeper inside; "" if the path does not lead through it.
// An engine names the cgroup after the container's id: /docker/ID,
// /system.slice/docker-ID.scope.
func OfContainer(path, id string) string {
	end := strings.Index(path, id)
	if id == "" || end < 0 || strings.HasPrefix(path, "/..") {
		return ""
	}
	rest := path[end+len(id):]
	if slash := strings.IndexByte(rest, '/'); slash >= 0 { // "/docker-ID.scope/init"
		rest = rest[:slash]
	}
	return path[:end+len(id)] + rest
}
