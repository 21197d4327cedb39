// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"weir/internal/base/cgroup"
	"weir/internal/base/nsthread"
)

// containerIDs are the 64 hex digits by which engines name a container's cgroup:
// /docker/ID, /system.slice/docker-ID.scope, /some/parent/ID.
var containerIDs = regexp.MustCompile(`[0-9a-f]{64}`)

// cgroupContainer reads the id of the outermost container out of the text of
// /proc/PID/cgroup, "" if there is none. Outermost: what an engine inside a
// container starts is that container's business.
func cgroupContainer(text string) string { return containerIDs.FindString(text) }

// netnsPath returns the file of a process's network namespace.
func netnsPath(proc string, pid int) string {
	return nsthread.PathOf(filepath.Join(proc, strconv.Itoa(pid)))
}

// findProcesses looks for processes of the containers in ids whose network
// namespace is one of nsids, and returns one process for each container found.
// The newest processes come first, since the container is being started; each
// namespace is resolved once.
func findProcesses(proc string, links linkTable, ids map[string]bool, nsids map[int]bool) map[string]int {
	found := map[string]int{}
	ours := map[string]bool{} // namespace's name -> whether it is one of nsids
	for _, pid := range processes(proc) {
		if len(found) == len(ids) {
			break
		}
		path := netnsPath(proc, pid)
		name, err := os.Readlink(path)
		if err != nil {
			continue // it has ended
		}
		if _, seen := ours[name]; !seen {
			ns, err := links.resolve(path)
			ours[name] = err == nil && ns != nil && nsids[ns.nsid]
		}
		if !ours[name] {
			continue
		}
		text, err := cgroup.Text(proc, pid)
		if err != nil {
			continue
		}
		if id := cgroupContainer(text); ids[id] && found[id] == 0 {
			found[id] = pid
		}
	}
	return found
}

// processes lists process ids, the newest (highest) first.
func processes(proc string) []int {
	dir, err := os.Open(proc)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.SortFunc(pids, func(a, b int) int { return b - a })
	return pids
}
