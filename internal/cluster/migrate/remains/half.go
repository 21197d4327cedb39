// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Half ends the processes of a container that CRIU has restored by half: its engine knows
// nothing of them, and they would keep the container's memory and its network namespace. It
// removes the cgroups that are named after the container's id, too. The engine must not call
// the container running. It returns how many processes there were.
func Half(ctx context.Context, p EngineNamespace, id string) (count int, err error) {
	if id == "" {
		return 0, nil
	}
	if _, err := End(ctx, On(id, Restore)); err != nil {
		return 0, err
	}
	groups := map[string]bool{}
	inside := func() (pids []int) {
		for pid, paths := range named(id) {
			pids = append(pids, pid)
			for _, path := range paths {
				groups[path] = true
			}
			_ = unix.Kill(pid, unix.SIGKILL) // it may have just ended
			_, _ = thaw(p.Root, pid, id)     // what is frozen does not end
		}
		return pids
	}
	if count, err = End(ctx, inside); err != nil {
		return count, err
	}
	var errs []error
	for path := range groups {
		errs = append(errs, removeGroup(filepath.Join(p.Root, "sys/fs/cgroup", path)))
	}
	return count, errors.Join(errs...)
}

// named returns the processes in cgroups that are named after a container, with the paths of
// those below /sys/fs/cgroup.
func named(id string) map[int][]string {
	list := map[int][]string{}
	all, _ := filepath.Glob("/proc/[0-9]*/cgroup") // the pattern is a good one
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), id) {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		for line := range strings.Lines(string(text)) {
			fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if len(fields) < 3 {
				continue
			}
			own := ancestor(fields[2], id)
			if own == "" {
				continue
			}
			controller := strings.TrimPrefix(fields[1], "name=")
			list[pid] = append(list[pid], filepath.Join(controller, own))
			if controller == "" {
				list[pid] = append(list[pid], filepath.Join("unified", own))
			}
		}
	}
	return list
}

// removeGroup removes a cgroup and those below it. One that has processes stays, with an error.
func removeGroup(dir string) error {
	below, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, entry := range below {
		if entry.IsDir() {
			errs = append(errs, removeGroup(filepath.Join(dir, entry.Name())))
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		errs = append(errs, fmt.Errorf("remove cgroup %s: %w", dir, err))
	}
	return errors.Join(errs...)
}
