// SPDX-License-Identifier: Apache-2.0

package capable

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/test/boundtest"
)

// TestManyProcessesOfAPod: a pod is looked at after each change of the host's devices, which may be
// its own. Its 20,000 processes took 0.3 s of CPU and 163 MB each time.
func TestManyProcessesOfAPod(t *testing.T) {
	folder := t.TempDir()
	var pids strings.Builder
	for range 20000 {
		fmt.Fprintln(&pids, os.Getpid())
	}
	if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(pids.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := 0
	never := func(proc string, pid int) bool {
		asked++
		HostAdmin(proc, pid)
		return false
	}
	boundtest.Hold(t, func() { AnyOf("/proc", folder, never) })
	if asked == 0 {
		t.Error("no process is asked")
	}
}

// TestAdminAmongManyProcesses: one of many that may administer the network is found in the end.
func TestAdminAmongManyProcesses(t *testing.T) {
	folder := t.TempDir()
	var pids strings.Builder
	for i := range 1000 {
		fmt.Fprintln(&pids, i+1)
	}
	if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(pids.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 10000 {
		if AnyOf("/proc", folder, func(_ string, pid int) bool { return pid == 900 }) {
			return
		}
	}
	t.Error("process 900 is not found")
}
