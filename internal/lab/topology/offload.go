// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ethtool commands that switch segmentation offload (linux/ethtool.h).
var offloads = []struct {
	command uint32
	name    string
}{
	{0x0000001f, "TSO"},
	{0x00000024, "GSO"},
	{0x0000002c, "GRO"},
}

// noOffload switches TSO, GSO and GRO of a device in the calling thread's
// namespace off: every packet is then one frame, as on a small gateway whose
// driver cannot do better.
func noOffload(device string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, o := range offloads {
		value := struct{ command, data uint32 }{o.command, 0}
		request := struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte // the kernel's union is larger than a pointer
		}{data: unsafe.Pointer(&value)}
		copy(request.name[:unix.IFNAMSIZ-1], device)
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
		if errno != 0 {
			return fmt.Errorf("switch %s of %s off: %w", o.name, device, errno)
		}
	}
	return nil
}
