// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"

	"weir/internal/lab/topology"
)

// The descriptors at which a cable's process has its two taps.
const (
	cableHostFD  = 3
	cableGuestFD = 4
)

// startCables starts a process for each tap workload that does what QEMU does for
// a virtual machine: it carries frames between the machine's device and the host's
// tap. They end with the lab's host.
func startCables(cables []topology.Cable) error {
	for _, c := range cables {
		cmd := exec.Command("/proc/self/exe", ChildArg, partCable)
		cmd.Stderr = os.Stderr
		cmd.ExtraFiles = []*os.File{c.Host, c.Guest}
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start the program behind a tap: %w", err)
		}
		go func() { _ = cmd.Wait() }() // it runs until the lab's host ends
	}
	return nil
}

// carry is the part of that process.
func carry() error {
	failed := make(chan error, 2)
	go func() { failed <- copyFrames(cableHostFD, cableGuestFD) }()
	go func() { failed <- copyFrames(cableGuestFD, cableHostFD) }()
	return <-failed
}

// copyFrames reads frames from one tap and writes them to the other, on a thread
// of its own. A frame that the other end does not take is lost, as on a wire.
func copyFrames(from, to int) error {
	runtime.LockOSThread()
	frame := make([]byte, 1<<16)
	for {
		n, err := unix.Read(from, frame)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read a tap: %w", err)
		}
		_, _ = unix.Write(to, frame[:n])
	}
}
