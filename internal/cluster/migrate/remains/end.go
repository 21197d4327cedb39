// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	patience  = 3 * time.Second // in which a dump without a parent may still end by itself
	deathPoll = 10 * time.Millisecond
	deathWait = 5 * time.Second
)

// End waits for processes, and kills those that do not end by themselves in time. It returns
// how many there were.
func End(ctx context.Context, find func() []int) (count int, err error) {
	pids := find()
	count = len(pids)
	for began, killed := time.Now(), false; len(pids) > 0; pids = find() {
		switch since := time.Since(began); {
		case since > patience+deathWait:
			return count, fmt.Errorf("processes %v do not end", pids)
		case since > patience && !killed:
			killed = true
			for _, pid := range pids {
				_ = unix.Kill(pid, unix.SIGKILL) // it may have just ended
			}
		}
		select {
		case <-ctx.Done():
			return count, ctx.Err()
		case <-time.After(deathPoll):
		}
	}
	return count, nil
}

// Freed ends what is at work on the restore of a container, for which its engine would wait, and
// then has the engine remove it.
func Freed(ctx context.Context, id string, remove func() error) error {
	if _, err := End(ctx, On(id, Restore)); err != nil {
		return err
	}
	return remove()
}

// At returns a function that finds the processes at work in a folder, a path of the engine's:
// those that work in it (CRIU), or that have it in their command line (the runtime).
func At(folder string) func() []int {
	return func() []int {
		return find(func(pid int, args []string) bool {
			for _, arg := range args {
				if strings.HasPrefix(arg, folder+"/") {
					return true
				}
			}
			cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
			return err == nil && strings.HasPrefix(cwd, folder+"/")
		})
	}
}

// With returns a function that finds the processes that have a path, or one that begins with it,
// in their command line.
func With(path string) func() []int {
	return func() []int {
		return find(func(_ int, args []string) bool {
			return slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, path) })
		})
	}
}

// Verb is what an engine's runtime, and CRIU below it, are told to do.
type Verb string

// The verbs.
const (
	Checkpoint Verb = "checkpoint"
	Restore    Verb = "restore"
)

// On returns a function that finds the processes at work on a container's checkpoint, or on
// its restore: an engine or a runtime that is told to do so with this id, and CRIU in a folder
// that has the id, also before it has read what it is to do. Of a runtime that is killed then, a
// child that CRIU has made to try the kernel may stay: it sleeps for ever and holds the runtime's
// output, on whose end the engine waits.
func On(id string, verb Verb) func() []int {
	title := "restore --rpc"
	if verb == Checkpoint {
		title = "dump --rpc"
	}
	return func() []int {
		return find(func(pid int, args []string) bool {
			ours, does := false, false
			for _, arg := range args {
				ours = ours || strings.Contains(arg, id)
				does = does || arg == string(verb) || arg == "swrk" || strings.Contains(arg, title)
			}
			if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); does && err == nil {
				ours = ours || strings.Contains(cwd, id)
			}
			return ours && does
		})
	}
}

// find returns the processes that match, but for this one.
func find(match func(pid int, args []string) bool) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is a good one
	for _, file := range all {
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		text, err := os.ReadFile(file)
		if err != nil || len(text) == 0 || pid == os.Getpid() {
			continue // it has ended, or is the kernel's
		}
		if match(pid, strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}
