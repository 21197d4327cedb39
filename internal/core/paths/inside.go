// SPDX-License-Identifier: Apache-2.0

package paths

import (
	"fmt"
	"slices"
)

// stackedKinds are kinds of devices inside of a namespace that send by the device of another one
// below them, tunnels those whose packets a socket of another namespace sends.
var (
	stackedKinds = []string{"macvlan", "macvtap", "ipvlan", "ipvtap", "vlan"}
	tunnels      = []string{"wireguard", "vxlan", "geneve", "gre", "gretap", "ip6gre", "ip6gretap", "ipip", "sit", "ip6tnl", "vti", "vti6", "xfrm"}
)

// inside says which devices in a workload's namespaces send by ways that pass no port.
func (m model) inside(w Workload, say sayer) {
	for _, in := range w.Inside {
		if !w.Whole || !in.Away {
			continue // its packets go on inside, and leave by another device
		}
		switch {
		case in.isPair() && !in.Host && in.Out:
			say("", "", fmt.Sprintf("the other end of its %s is in another network namespace, as on an overlay network, and no device of this host carries what passes there", in.Name),
				"connect the workload to the outside by a bridge network alone, or limit it in that namespace")
		case slices.Contains(stackedKinds, in.Kind) && in.Host && !w.Sockets:
			m.stacked(in, say)
		case slices.Contains(tunnels, in.Kind):
			say("", "egress", fmt.Sprintf("the packets of its %s are sent from another network namespace, and count there", in.Name),
				"make the tunnel in the workload's own namespace, or name "+in.Name+" as a link where it is")
		}
	}
}

// stacked says that a device on one of the host's passes no port on its way to a link.
func (m model) stacked(in Interface, say sayer) {
	for _, l := range m.links {
		link, ok := m.host.named(l.Device)
		if !ok || !slices.Contains(m.host.below(in.Parent), link.Index) {
			continue
		}
		below, _ := m.host.at(in.Parent)
		say(l.Device, "", fmt.Sprintf("its %s (%s) stands on %s, and what passes there passes no port", in.Name, in.Kind, below.Name),
			"use a bridge network, or attach the cgroup of its processes, which holds what its sockets send")
	}
}
