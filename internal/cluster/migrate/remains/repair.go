// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"errors"

	"golang.org/x/sys/unix"

	"weir/internal/cluster/migrate/process"
)

// mend takes the TCP connections of a container's processes out of repair mode, and says
// whether one was in it. The kernel then tells the other end that it is there again.
func mend(init int) (took bool, err error) {
	for _, pid := range process.Descendants(init) {
		err = errors.Join(err, process.EachSocket(pid, func(fd int) error {
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
