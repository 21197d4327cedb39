// SPDX-License-Identifier: Apache-2.0

// Package within says which devices a workload's network namespace has, where none of the host's
// leads into it.
//
//	Devices("/run/netns/lan")              // lo device, lan0 macvlan
//	Stacked(devices)                       // "lan0": its packets leave by the host's device below
//	Awaits("/run/netns/lan", Devices)      // "no veth or netkit pair of this host leads into ..."
//
// It enters the namespace for as long as it takes to make a socket there.
package within

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/host/dump"
)

// Device is a device in a namespace, e.g. eth0 of kind macvlan. Mode is "l2",
// "l3" or "l3s" if it is an ipvlan, else "".
type Device struct{ Name, Kind, Mode string }

// Stacked finds a device whose packets go from the container to the queue of the
// device below it on the host, and by no other on the way; "" if there is none. A
// mark that they have been given in the container stays on them.
func Stacked(kinds []Device) (device string) {
	for _, k := range kinds {
		switch k.Kind {
		case "macvlan", "macvtap":
			return k.Name
		case "ipvlan", "ipvtap":
			if k.Mode == "l2" {
				return k.Name
			}
		}
	}
	return ""
}

// Awaits returns why a namespace has no device here, and whether it has devices all the same.
func Awaits(path string, devices func(path string) ([]Device, error)) (why string, unseen bool) {
	list, err := devices(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "network namespace " + path + " is not there", false
	}
	if err != nil {
		return "network namespace " + path + " cannot be read: " + err.Error(), false
	}
	var inside []string
	for _, k := range list {
		if k.Name != "lo" {
			inside = append(inside, k.Name+" ("+k.Kind+")")
		}
	}
	none := "no veth or netkit pair of this host leads into network namespace " + path
	if len(inside) == 0 {
		return none, false
	}
	return none + ", what it sends by " + strings.Join(inside, ", ") + " is not seen; attach its device, unit or cgroup instead", true
}

// Devices lists the devices inside a namespace.
func Devices(path string) ([]Device, error) {
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
	links, err := dump.Whole(h.LinkList)
	if err != nil {
		return nil, err
	}
	kinds := make([]Device, len(links))
	for i, l := range links {
		kinds[i] = Device{Name: l.Attrs().Name, Kind: l.Type(), Mode: ipvlanMode(l)}
	}
	return kinds, nil
}

func ipvlanMode(l netlink.Link) string {
	var vlan netlink.IPVlan
	switch l := l.(type) {
	case *netlink.IPVlan:
		vlan = *l
	case *netlink.IPVtap:
		vlan = l.IPVlan
	default:
		return ""
	}
	switch vlan.Mode {
	case netlink.IPVLAN_MODE_L2:
		return "l2"
	case netlink.IPVLAN_MODE_L3:
		return "l3"
	}
	return "l3s"
}
