// SPDX-License-Identifier: Apache-2.0

// Package cgroup knows in which cgroup of version 2 a Docker engine expects a container, and puts
// a checkpoint's processes there.
//
// CRIU restores processes into the cgroup that they came from. runc 1.1 and 1.2 do not tell it that
// the container has another id on the target, or that the engine there keeps its containers below
// another parent: what came from /machines/ID has to be in /system.slice/docker-ID.scope there. In
// a cgroup that the runtime knows nothing of, the container can neither be limited nor paused, and
// CRIU finds no process to seize when it dumps it again ("Unseizable non-zombie").
//
// With cgroups of version 1 runc tells CRIU; this package is not for them.
package cgroup

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"weir/internal/base/safepath"
	"weir/internal/cluster/migrate/docker/daemon"
)

// In returns the cgroup in which a daemon expects a container, by its driver of cgroups and the
// parent that the container's configuration or its own names. It returns "" for one that sees
// other paths of cgroups than this process. file returns the path by which this process reaches
// a path of the daemon's.
func In(daemon int, file func(string) string, driver, parent, id string) string {
	if !sameView(daemon) {
		return ""
	}
	return of(driver, cmp.Or(parent, configured(daemon, file)), id)
}

// of returns the cgroup of a container below a parent, "" for the parent that the engine chooses.
// It returns "" for a cgroup below the daemon's own.
func of(driver, parent, id string) string {
	switch {
	case driver == "systemd" && parent == "":
		return "/system.slice/docker-" + id + ".scope"
	case driver == "systemd" && strings.HasSuffix(parent, ".slice") && !strings.Contains(parent, "/"):
		return slice(parent) + "/docker-" + id + ".scope"
	case driver == "cgroupfs" && parent == "":
		return "/docker/" + id
	case driver == "cgroupfs" && strings.HasPrefix(parent, "/"):
		return path.Join(parent, id)
	}
	return ""
}

// slice returns where systemd puts a slice: "a-b.slice" is /a.slice/a-b.slice.
func slice(name string) string {
	if name == "-.slice" {
		return ""
	}
	dir, part := "", ""
	for _, word := range strings.Split(strings.TrimSuffix(name, ".slice"), "-") {
		part = strings.TrimPrefix(part+"-"+word, "-")
		dir += "/" + part + ".slice"
	}
	return dir
}

// sameView reports whether a daemon sees the paths of cgroups that this process sees.
func sameView(pid int) bool {
	own, err := os.Readlink("/proc/self/ns/cgroup")
	its, itsErr := os.Readlink(fmt.Sprintf("/proc/%d/ns/cgroup", pid))
	return err == nil && itsErr == nil && own == its
}

// configured returns the parent that a daemon's command line or its configuration names, "" for
// none.
func configured(pid int, file func(string) string) string {
	const name = "cgroup-parent"
	config := "/etc/docker/daemon.json"
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // its end is noticed by the next call
	args := strings.Split(string(text), "\x00")
	for i, arg := range args {
		key, value, given := strings.Cut(arg, "=")
		if !given && i+1 < len(args) {
			value = args[i+1]
		}
		switch key {
		case "--" + name:
			return value
		case "--config-file":
			config = value
		}
	}
	var options map[string]any
	if text, err := safepath.ReadFile(file(config)); err != nil || json.Unmarshal(text, &options) != nil {
		return "" // it need not be there; the daemon itself refuses a wrong one
	}
	value, _ := options[name].(string)
	return value
}

// Check returns an error if a container's first process is not in the container's cgroup: what
// pauses that would not stop it, and no second dump would find it.
func Check(pid int, id string, file func(string) string) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return err
	}
	groups := strings.Join(strings.Fields(string(text)), " ")
	if !strings.Contains(groups, id) {
		return fmt.Errorf("it was restored outside of its cgroup (process %d is in %s)", pid, groups)
	}
	own, two := strings.CutPrefix(groups, "0::")
	if want := expected(pid, id, file); two && want != "" && own != want {
		return fmt.Errorf("it was restored outside of its cgroup %s (process %d is in %s)", want, pid, own)
	}
	return nil
}

// expected returns the cgroup of version 2 in which the runtime expects a container, "" if it does
// not say.
func expected(pid int, id string, file func(string) string) string {
	s, err := daemon.ShimOf(file, pid)
	if err != nil || !sameView(s.Pid) {
		return ""
	}
	var state struct {
		CgroupPaths map[string]string `json:"cgroup_paths"`
	}
	text, err := safepath.ReadFile(file(filepath.Join(s.Root, id, "state.json")))
	if err != nil || json.Unmarshal(text, &state) != nil {
		return ""
	}
	group, found := strings.CutPrefix(state.CgroupPaths[""], "/sys/fs/cgroup")
	if !found {
		return ""
	}
	return group
}
