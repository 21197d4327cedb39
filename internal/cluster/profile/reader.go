// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"errors"

	"golang.org/x/sys/unix"
)

// reader reads small files of the kernel's into a buffer of its own, which the next
// read overwrites. It asks the kernel directly: os.File would register each with the
// runtime's poller.
type reader struct {
	buffer []byte
}

// file returns the contents of a file, cut to the size of the buffer; false if it
// cannot be read.
func (r *reader) file(path string) ([]byte, bool) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	total := 0
	for total < len(r.buffer) {
		n, err := unix.Read(fd, r.buffer[total:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, false
		case n == 0:
			return r.buffer[:total], true
		default:
			total += n
		}
	}
	return r.buffer[:total], true
}
