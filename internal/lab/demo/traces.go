// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// namespaceIDs are such as "net:[4026532345]".
type namespaceIDs []string

// namespacesOf returns the namespaces of a process that make up its private host.
func namespacesOf(pid int) namespaceIDs {
	var ids namespaceIDs
	for _, kind := range []string{"net", "pid", "mnt"} {
		if id, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind)); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// traces returns the reasons for which one of the namespaces is alive: processes in it,
// mounts of it. The kernel removes a namespace without any, with all that was in it.
func (ids namespaceIDs) traces() []string {
	var left []string
	members, _ := filepath.Glob("/proc/[0-9]*/ns/*")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, id := range ids {
		for _, m := range members {
			if other, err := os.Readlink(m); err == nil && other == id {
				left = append(left, "process "+strings.Split(m, "/")[2]+" in namespace "+id)
			}
		}
		if strings.Contains(string(mounts), " "+id+" ") {
			left = append(left, "a mount of namespace "+id)
		}
	}
	return left
}
