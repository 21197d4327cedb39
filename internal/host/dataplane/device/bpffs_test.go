// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane"
)

// TestMountBPFFS: where the BPF file system is missing, it is mounted once, and the caller is told.
func TestMountBPFFS(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	failed := make(chan error, 1)
	var first, second bool
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its mount namespace
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("none", bpffsMount, "tmpfs", 0, "")
		}
		if err == nil {
			first, err = MountBPFFS(dataplane.Options{})
		}
		if err == nil {
			second, err = MountBPFFS(dataplane.Options{})
		}
		failed <- err
	}()
	if err := <-failed; err != nil || !first || second {
		t.Errorf("mounted %v, and again %v; %v", first, second, err)
	}
}
