// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/internal/cluster/migrate"
)

// shared lists the namespaces that containers share, by their names in /proc and for people.
var shared = []struct{ kind, what string }{{"net", "network"}, {"ipc", "IPC"}, {"pid", "process"}, {"uts", "host name"}}

// Stranger is a process that is not of a container, but in one of its namespaces: it would stay
// behind with what CRIU has made of that.
type Stranger struct {
	Pid    int
	What   string // e.g. "network"
	Groups string // the process's cgroups, as the kernel lists them
}

// Strangers lists the processes outside of a container that share a namespace with it. init is
// the container's first process, id is in the name of its cgroup. Namespaces that the container
// shares with host, a process of the engine's, are the machine's and do not count.
func Strangers(init int, id string, host int) (list []Stranger) {
	own := map[string]string{}
	for _, s := range shared {
		if ns := namespaceOf(init, s.kind); ns != "" && ns != namespaceOf(host, s.kind) {
			own[s.kind] = ns
		}
	}
	if len(own) == 0 {
		return nil
	}
	inside := Descendants(init)
	all, _ := filepath.Glob("/proc/[0-9]*/ns") // the pattern is a good one
	for _, dir := range all {
		pid, _ := strconv.Atoi(strings.Split(dir, "/")[2])
		if slices.Contains(inside, pid) {
			continue
		}
		for _, s := range shared {
			if own[s.kind] == "" || namespaceOf(pid, s.kind) != own[s.kind] {
				continue
			}
			groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
			if err == nil && !strings.Contains(string(groups), id) {
				list = append(list, Stranger{pid, s.what, string(groups)})
			}
			break
		}
	}
	return list
}

// Staying returns a finding for each container, and for each process of none, that shares a
// namespace with a container and would stay behind. nameOf returns the name of the container
// that a process's cgroups belong to, "" for none. again looks once more: a process of a tool
// that looks into containers is gone by then.
func Staying(look func() []Stranger, nameOf func(groups string) string, again func()) (list []migrate.PreflightFinding) {
	found := look()
	if slices.ContainsFunc(found, func(s Stranger) bool { return nameOf(s.Groups) == "" }) {
		again()
		found = look()
	}
	known := map[string]bool{}
	for _, s := range found {
		who, remedy := "container "+nameOf(s.Groups), "stop it first, or start it with namespaces of its own"
		if who == "container " {
			who, remedy = fmt.Sprintf("process %d (%s)", s.Pid, Name(s.Pid)), "end it first"
		}
		if !known[who] {
			known[who] = true
			list = append(list, migrate.PreflightFinding{Code: "shared-namespace", Refuses: true, Msg: fmt.Sprintf("%s shares its %s namespace and would stay behind", who, s.What), Remedy: remedy})
		}
	}
	return list
}
