// SPDX-License-Identifier: Apache-2.0

package marktest

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// compat makes a system call as programs of 32 bits do.
func compat(number, a, b, c, d, e uint32) int32

// setByCompat sets a socket option so.
func setByCompat(fd, level, option int, value int32) error {
	const number, map32Bit = 366, 0x40
	page, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|map32Bit, ^uintptr(0), 0)
	if errno != 0 {
		return errno
	}
	at := *(**int32)(unsafe.Pointer(&page))
	*at = value
	if result := compat(number, uint32(fd), uint32(level), uint32(option), uint32(page), 4); result != 0 {
		return unix.Errno(-result)
	}
	return nil
}
