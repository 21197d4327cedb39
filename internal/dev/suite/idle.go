// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// idleGroup is a cgroup whose processes take of the processors what nothing else on this machine
// wants (cpu.idle). SCHED_IDLE alone counts within a session, and within a container's cgroup.
type idleGroup struct{ folder string }

// cpuRoots are where the controller of processors is, of version 1 and 2 of cgroups.
var cpuRoots = []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"}

// newIdleGroup makes a group. It fails where the kernel (before Linux 5.15) or this process cannot.
func newIdleGroup() (g idleGroup, err error) {
	for _, root := range cpuRoots {
		g.folder = filepath.Join(root, fmt.Sprint("weir-suite-", os.Getpid()))
		if made := os.Mkdir(g.folder, 0o755); made != nil {
			err = errors.Join(err, made)
			continue
		}
		set := os.WriteFile(filepath.Join(g.folder, "cpu.idle"), []byte("1"), 0)
		if set == nil {
			return g, nil
		}
		err = errors.Join(err, set, g.remove())
	}
	return g, err
}

// within returns a step whose command is in the group.
func (g idleGroup) within(s step) step {
	s.Command = slices.Concat([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(g.folder, "cgroup.procs")}, s.Command)
	return s
}

// remove removes the group, in which no process is left.
func (g idleGroup) remove() error { return os.Remove(g.folder) }
