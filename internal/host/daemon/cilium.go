// SPDX-License-Identifier: Apache-2.0

package daemon

import "net"

// ciliumHere says whether Cilium runs on this host.
func ciliumHere() bool {
	return ciliumAmong(func(name string) int {
		if found, err := net.InterfaceByName(name); err == nil {
			return found.Index
		}
		return 0
	})
}

// ciliumAmong says whether one of the devices is Cilium's: it makes these before it steers
// anything. indexOf returns 0 for a device that is not there.
func ciliumAmong(indexOf func(device string) int) bool {
	return indexOf("cilium_host") != 0 || indexOf("cilium_net") != 0
}

// ciliumLate is what waits for the next start where Cilium has come or gone since this one.
const ciliumLate = "where packets carry their class (Cilium has come or gone)"
