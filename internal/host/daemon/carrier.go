// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"sync"

	"golang.org/x/sys/unix"
)

// carriers asks the kernel whether devices can send. It asks for one device's flags, which costs
// less than a list of all devices.
type carriers struct {
	socket func() (int, error)
}

func newCarriers() carriers {
	return carriers{sync.OnceValues(func() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) })}
}

// down returns why a device sends nothing, "" if it may send, or that is not known.
func (c carriers) down(device string) string {
	fd, err := c.socket()
	if err != nil {
		return ""
	}
	request, err := unix.NewIfreq(device)
	if err != nil || unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, request) != nil {
		return "" // a device that is gone is said elsewhere
	}
	switch flags := request.Uint16(); {
	case flags&unix.IFF_UP == 0:
		return "the device is down, so nothing is sent; ip link set " + device + " up"
	case flags&unix.IFF_RUNNING == 0:
		return "the device has no carrier, so nothing is sent; look at the cable, and at the other end"
	}
	return ""
}
