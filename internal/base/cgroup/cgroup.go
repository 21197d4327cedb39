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
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Mounts returns the folders at which cgroup2 is mounted, in the order of
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

// MaxDepth is how far below the top a cgroup may be for its packets to be told from others'
// (WEIR_MAX_LEVELS in bpf/marking/owner.h): each level costs packets of sockets a look. Cgroups
// inside of a workload's may be deeper.
const MaxDepth = 15

// TooDeep says why packets of a folder below the root cannot be told apart; "" if they can.
func TooDeep(root, folder string) string {
	below, err := filepath.Rel(root, folder)
	if depth := strings.Count(below, "/") + 1; err == nil && depth > MaxDepth {
		return fmt.Sprintf("its cgroup is %d levels below the top, and packets are told apart by at most %d; give it a parent nearer to the top", depth, MaxDepth)
	}
	return ""
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

// FromTop reports whether this process sees cgroups from the top of the hierarchy, not
// from the root of a cgroup namespace somewhere below.
func FromTop() bool {
	const initial = "cgroup:[4026531835]" // PROC_CGROUP_INIT_INO of linux/proc_ns.h
	namespace, err := os.Readlink("/proc/self/ns/cgroup")
	return err != nil || namespace == initial // an error: this kernel has none
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

// Hierarchy describes the cgroups of version 2 on a host.
type Hierarchy struct {
	Root string // where cgroup2 is mounted, "" if it is not
	// Legacy says that version 1 is mounted, too: then units and containers may be
	// there and not below Root.
	Legacy bool
}

// Read finds the hierarchy of this process's mounts.
func Read() Hierarchy {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return Hierarchy{}
	}
	h := Hierarchy{Legacy: strings.Contains(string(text), " cgroup ")}
	if list := mounts(string(text)); len(list) > 0 {
		h.Root = list[0] // there is one hierarchy, however often it is mounted
	}
	return h
}

// Trouble says why the processes of this host cannot be told apart by cgroups of
// version 2, with the remedy; "" if they can.
func (h Hierarchy) Trouble() string {
	const remedy = "boot with systemd.unified_cgroup_hierarchy=1"
	if h.Root == "" {
		return "this host has no cgroups of version 2, by which the packets of processes are told apart; " + remedy +
			", or where no systemd runs: mount -t cgroup2 none /sys/fs/cgroup"
	}
	if h.Legacy && !h.settled() {
		return "this host keeps its processes in cgroups of version 1, which cannot mark packets; " + remedy
	}
	return ""
}

// settled reports whether systemd has put anything below Root.
func (h Hierarchy) settled() bool {
	entries, _ := os.ReadDir(h.Root)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return strings.HasSuffix(e.Name(), ".slice") || strings.HasSuffix(e.Name(), ".scope")
	})
}

// Units finds the folders of the systemd units that match accepts, by unit, and
// the slices that it looked into, Root among them: where further units may appear.
// It does not look into services and scopes: what runs a systemd of its own in
// there, such as a container, has units that are not the host's.
func (h Hierarchy) Units(match func(unit string) bool) (units map[string]string, searched []string) {
	units = map[string]string{}
	if h.Root == "" {
		return units, nil
	}
	var walk func(dir string)
	walk = func(dir string) {
		searched = append(searched, dir)
		entries, _ := os.ReadDir(dir) // it may go at any moment
		for _, e := range entries {
			name := e.Name()
			if !e.IsDir() || !strings.Contains(name, ".") {
				continue
			}
			path := filepath.Join(dir, name)
			if match(name) {
				units[name] = path
			}
			if strings.HasSuffix(name, ".slice") {
				walk(path)
			}
		}
	}
	walk(h.Root)
	return units, searched
}
