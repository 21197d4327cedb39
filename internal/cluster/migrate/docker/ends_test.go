// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
)

// TestEnds: a process that CRIU has killed, and that is frozen for a moment more, is taken for
// one that ends; one that goes on is not.
func TestEnds(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	s := &container.State{Running: true, Pid: cmd.Process.Pid}
	if ends(s) {
		t.Error("it goes on, and is said to end")
	}
	time.AfterFunc(killTime/4, func() { _ = cmd.Process.Kill() })
	if !ends(s) {
		t.Error("it ends, and is said to go on")
	}
}
