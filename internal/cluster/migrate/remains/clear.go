// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"context"
	"errors"
	"os/exec"
	"strings"

	"weir/internal/base/command"
)

// EngineNamespace is the mount namespace of a container engine, in which CRIU has run.
type EngineNamespace struct {
	Root    string // path by which this process reaches its files, such as /proc/812/root
	Command func(ctx context.Context, args ...string) *exec.Cmd
}

// Here is the place of an engine that has this process's mounts.
var Here = EngineNamespace{Root: "/", Command: func(ctx context.Context, args ...string) *exec.Cmd {
	return command.New(ctx, args[0], args[1:]...)
}}

// Clear takes away what a CRIU that was killed has left in a container that runs, and says
// what that was. pid is the container's first process, id is in the name of its cgroup. No
// CRIU may be at work on it (End), and the engine must not have paused it. Clear may be called
// for a container in which nothing was left.
func Clear(ctx context.Context, p EngineNamespace, pid int, id string) (taken []string, err error) {
	var errs []error
	for _, r := range []struct {
		what string
		take func() (bool, error)
	}{
		{"a freeze", func() (bool, error) { return thaw(p.Root, pid, id) }},
		{"rules that drop its packets", func() (bool, error) { return unlock(ctx, p, pid) }},
		{"TCP connections in repair mode", func() (bool, error) { return mend(pid) }},
	} {
		took, err := r.take()
		if took {
			taken = append(taken, r.what)
		}
		errs = append(errs, err)
	}
	return taken, errors.Join(errs...)
}

// Note says in words what Clear has taken away, "" for nothing.
func Note(taken []string) string {
	if len(taken) == 0 {
		return ""
	}
	return "CRIU was killed; what it had left in the container is removed: " + strings.Join(taken, ", ")
}
