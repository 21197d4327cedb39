// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/cluster/migrate/process"
)

// mend takes the TCP connections of a container's processes out of repair mode, and says
// whether one was in it. The kernel then tells the other end that it is there again.
func mend(init int) (took bool, err error) {
	for _, pid := range process.Descendants(init) {
		err = errors.Join(err, eachSocket(pid, func(fd int) error {
			on, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR)
			if err != nil || on == 0 {
				return nil // not TCP, or as it should be
			}
			took = true
			return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 0)
		}))
	}
	return took, err
}

// eachSocket calls f with a descriptor of each socket of a process.
func eachSocket(pid int, f func(fd int) error) error {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil // it has just ended
	}
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(handle)
	for _, entry := range list {
		to, err := os.Readlink(dir + "/" + entry.Name())
		n, errNumber := strconv.Atoi(entry.Name())
		if err != nil || errNumber != nil || !strings.HasPrefix(to, "socket:") {
			continue
		}
		fd, err := unix.PidfdGetfd(handle, n, 0)
		if err != nil {
			continue
		}
		err = f(fd)
		_ = unix.Close(fd)
		if err != nil {
			return fmt.Errorf("process %d: descriptor %d: %w", pid, n, err)
		}
	}
	return nil
}
