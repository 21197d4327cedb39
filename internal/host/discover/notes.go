// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"strings"

	"weir/internal/host/discover/within"
)

const containerMode = "container:" // followed by the id of the container whose network is shared

// ownsNetwork says whether a container with this network mode has a network
// namespace of its own.
func ownsNetwork(mode string) bool {
	return mode != "host" && !strings.HasPrefix(mode, containerMode)
}

// sharedNote says why a container that uses another's network namespace cannot be
// steered by itself.
func (r *roster) sharedNote(c *record) string {
	owner := strings.TrimPrefix(c.Mode, containerMode)
	if o := r.records[owner]; o != nil && o.Name != "" {
		owner = o.Name
	}
	return fmt.Sprintf("shares the network of container %s: what that one is given holds for both", owner)
}

// noDevice is why a container with a network of its own is known by its cgroup alone, and bySockets
// what follows. Its process has left the namespace that the engine made, took the devices along, or
// there are none.
const (
	noDevice  = "no device of its network is to be seen"
	bySockets = ": what its sockets send counts here by its cgroup, and what it forwards is the host's"
)

// onHostDevice says what kind of network a stacked device is.
func onHostDevice(device string) string {
	return fmt.Sprintf("its device %s is stacked on one of the host's", device)
}

// noteForKinds says why a container with its own network namespace, in which
// these devices are, has none on the host's side and cannot be told by its cgroup.
// "" means that it can be, or that its network is just not up.
func noteForKinds(mode string, kinds []within.Device) string {
	if mode == "none" {
		return "has no network (it was started with --network none)"
	}
	for _, k := range kinds {
		switch k.Kind {
		case "ipvlan", "ipvtap":
			if k.Mode != "l2" {
				return fmt.Sprintf("its device %s is of kind %s in mode %s, which takes every mark off a packet; use mode l2 or a bridge network", k.Name, k.Kind, k.Mode)
			}
		case "device":
			if k.Name != "lo" {
				return fmt.Sprintf("its device %s is hardware that was moved into the container; its packets do not pass the host", k.Name)
			}
		}
	}
	return ""
}

// unheld is what is not held of a workload that is known by its cgroup: a packet that it
// forwards, from a namespace that it makes inside its own, has no socket to know it by. Only a
// workload with CAP_NET_ADMIN and a device of its own can forward.
func unheld(network string) string {
	return fmt.Sprintf("%s and it has CAP_NET_ADMIN: packets that it forwards or redirects count as the host's, or as another workload's; "+
		"take the capability from it, or give it a network with veths", network)
}

// reaching is what is not held of a workload with veths that has CAP_NET_ADMIN in the host's
// user namespace: the kernel lets it make a macvlan on a device of another network namespace
// whose user namespace is the same (IFLA_LINK_NETNSID). Packets of its sockets count as its own.
const reaching = "it has CAP_NET_ADMIN without a user namespace of its own, and so over the devices of the host: packets that it forwards or redirects " +
	"by a device that it makes there count as the host's, or as another workload's; take the capability from it, or give it a user namespace"
