// SPDX-License-Identifier: Apache-2.0

// Package sandbox gives a process a host of its own: new network, mount and
// process namespaces in which it may make devices, qdiscs, mounts and processes
// as it likes. When its first process ends, for whatever reason, the kernel ends
// all others and takes the namespaces down with everything in them.
//
// A program uses it to run a part of itself there:
//
//	cmd := exec.Command("/proc/self/exe", "__part")
//	wait, err := sandbox.Start(cmd) // as root; "__part" begins with
//	err := sandbox.Enter("/sys/fs/cgroup")
//
// Not private: files outside of the places that Enter mounts anew,
// cgroups, memory and CPU time. A sandbox keeps order; it does not confine a program.
package sandbox

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start starts cmd as the first process of a new sandbox; wait returns how it
// ended, as cmd.Wait does. cmd dies if the caller does. It is in a process group
// of its own, so that an interrupt at the terminal reaches only the caller;
// cmd.Cancel decides what comes of it.
func Start(cmd *exec.Cmd) (wait func() error, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true,
	}
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		// The kernel sends the parent-death signal when the thread ends that
		// started the child, not when the process does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("make a private host: %w; are new namespaces allowed here (in a container it needs --privileged)?", err)
	}
	return func() error { return <-ended }, nil
}

// Enter makes the mounts of a new sandbox its own: /proc of the new process
// namespace, /sys of the new network namespace, an empty BPF file system and an
// empty /run. Mounts at the paths in keep, such as /sys/fs/cgroup, are
// there again afterwards.
func Enter(keep ...string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	kept := make([]int, len(keep))
	for i, path := range keep {
		fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("copy the mount %s: %w", path, err)
		}
		defer unix.Close(fd)
		kept[i] = fd
	}
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"bpf", "/sys/fs/bpf"}, {"tmpfs", "/run"},
	} {
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount a private %s: %w", m.at, err)
		}
	}
	for i, path := range keep {
		if err := unix.MoveMount(kept[i], "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("put the mount %s back: %w", path, err)
		}
	}
	return nil
}
