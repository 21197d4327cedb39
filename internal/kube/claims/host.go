// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"weir/internal/kube/claims/translate"
)

// HostPorts returns what this host says of network devices. A device that it does not have, such
// as in a pod with a network of its own, is left out.
func HostPorts(devices []string) map[string]translate.Port {
	ports := map[string]translate.Port{}
	for _, name := range devices {
		i, err := net.InterfaceByName(name)
		if err != nil {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/sys/class/net", name, "speed"))
		if err != nil {
			text = nil // the driver of the network card does not say
		}
		ports[name] = port(string(text), addresses)
	}
	return ports
}

// port returns a port out of the text of its file speed and its addresses.
func port(speed string, addresses []net.Addr) translate.Port {
	var p translate.Port
	if n, err := strconv.ParseInt(strings.TrimSpace(speed), 10, 64); err == nil && n > 0 { // -1 = unknown
		p.Speed = n
	}
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		switch {
		case err != nil || prefix.Addr().IsLinkLocalUnicast():
		case prefix.Addr().Is4() && p.Subnet == "":
			p.Subnet = prefix.Masked().String()
		case prefix.Addr().Is6() && p.Subnet6 == "":
			p.Subnet6 = prefix.Masked().String()
		}
	}
	return p
}
