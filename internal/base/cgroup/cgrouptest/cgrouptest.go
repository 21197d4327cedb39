// SPDX-License-Identifier: Apache-2.0

// Package cgrouptest runs programs under a limit on their memory, as systemd's MemoryMax and
// Kubernetes' limits set one: beyond it the kernel ends the program. Example:
//
//	limit := cgrouptest.Limit(t, 256<<20)
//	cmd := limit.Command("weir-kubernetes", "--node", "n1")
//
// It uses the memory controller of version 2, or of version 1 where that has it.
package cgrouptest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/base/cgroup"
)

// Memory is a cgroup with a limit.
type Memory struct {
	folder string
	files  files
}

// files are the names of what a version of cgroups calls a limit, the most that was in use, and
// what the kernel has ended.
type files struct{ limit, most, events string }

var (
	version1 = files{"memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"}
	version2 = files{"memory.max", "memory.peak", "memory.events"}
)

// Limit makes a cgroup whose processes may have so many bytes of memory together. It goes with
// the test. Where the kernel offers no memory controller the test is skipped.
func Limit(t testing.TB, bytes int64) *Memory {
	t.Helper()
	root, names, err := controller()
	if err != nil {
		t.Skipf("skipped: no limit on memory can be set: %v", err)
	}
	m := &Memory{folder: filepath.Join(root, fmt.Sprintf("weir-test-%d-%d", os.Getpid(), time.Now().UnixNano())), files: names}
	if err := os.Mkdir(m.folder, 0o755); err != nil {
		t.Skipf("skipped: no limit on memory can be set: %v", err)
	}
	t.Cleanup(func() { m.remove(t) })
	if err := os.WriteFile(filepath.Join(m.folder, names.limit), []byte(strconv.FormatInt(bytes, 10)), 0); err != nil {
		t.Fatal(err)
	}
	// Without a swap the limit is of all memory; the file is absent then.
	if err := os.WriteFile(filepath.Join(m.folder, "memory.swap.max"), []byte("0"), 0); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
		t.Fatal(err)
	}
	return m
}

// controller returns the folder below which cgroups with the memory controller can be made.
func controller() (root string, names files, err error) {
	for _, root := range cgroup.Mounts() {
		has, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
		if err != nil || !slices.Contains(strings.Fields(string(has)), "memory") {
			continue
		}
		return root, version2, os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory"), 0)
	}
	if root := cgroup.Controllers()["memory"]; root != "" {
		return root, version1, nil
	}
	return "", names, errors.New("there is no memory controller")
}

// remove waits for the end of the processes, which the test has killed.
func (m *Memory) remove(t testing.TB) {
	var err error
	for range 100 {
		if err = os.Remove(m.folder); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error(err)
}

// Command returns the command that runs a program under the limit from its first instruction on.
func (m *Memory) Command(program string, args ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(m.folder, "cgroup.procs"), program}, args...)...)
}

// Most returns the most memory that was in use so far, in bytes; 0 if this kernel does not say.
func (m *Memory) Most() int64 {
	text, _ := os.ReadFile(filepath.Join(m.folder, m.files.most))
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}

// Killed returns how many processes the kernel has ended at the limit.
func (m *Memory) Killed(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.folder, m.files.events))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if count, found := strings.CutPrefix(line, "oom_kill "); found {
			n, err := strconv.Atoi(strings.TrimSpace(count))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no oom_kill in %s", text)
	return 0
}
