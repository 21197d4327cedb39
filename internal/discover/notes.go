// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const containerMode = "container:" // followed by the id of the container whose network is shared

// ownsNetwork says whether a container with this network mode has a network
// namespace of its own.
func ownsNetwork(mode string) bool {
	return mode != "host" && !strings.HasPrefix(mode, containerMode)
}

// sharedNote says why a container without a network namespace of its own cannot
// be steered.
func (r *roster) sharedNote(c *record) string {
	owner, shared := strings.CutPrefix(c.Mode, containerMode)
	if !shared {
		return "uses the host's network: its packets cannot be told from the host's own"
	}
	if o := r.records[owner]; o != nil && o.Name != "" {
		owner = o.Name
	}
	return fmt.Sprintf("shares the network of container %s: what that one is given holds for both", owner)
}

// namedKind is a device in a container, e.g. eth0 of kind macvlan.
type namedKind struct{ Name, Kind string }

// noteForKinds says why a container with its own network namespace, in which
// these devices are, has none on the host's side. "" means that its network is
// just not up.
func noteForKinds(mode string, kinds []namedKind) string {
	if mode == "none" {
		return "has no network (it was started with --network none)"
	}
	for _, k := range kinds {
		switch k.Kind {
		case "macvlan", "ipvlan", "macvtap", "ipvtap":
			return fmt.Sprintf("its device %s is of kind %s, whose packets pass no device on the host by which they could be told apart; not supported, use a bridge network", k.Name, k.Kind)
		case "device":
			if k.Name != "lo" {
				return fmt.Sprintf("its device %s is hardware that was moved into the container; its packets do not pass the host", k.Name)
			}
		}
	}
	return ""
}

// namespaceKinds lists the devices inside a namespace.
func namespaceKinds(path string) ([]namedKind, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	links, err := h.LinkList()
	if err != nil {
		return nil, err
	}
	kinds := make([]namedKind, len(links))
	for i, l := range links {
		kinds[i] = namedKind{l.Attrs().Name, l.Type()}
	}
	return kinds, nil
}
