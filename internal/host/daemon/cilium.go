// SPDX-License-Identifier: Apache-2.0

package daemon

import "net"

// ciliumHere says whether Cilium runs on this host: it makes these devices before it steers anything.
func ciliumHere() bool {
	for _, name := range []string{"cilium_host", "cilium_net"} {
		if _, err := net.InterfaceByName(name); err == nil {
			return true
		}
	}
	return false
}

// ciliumLate is what waits for the next start where Cilium has come or gone since this one.
const ciliumLate = "where packets carry their class (Cilium has come or gone)"
