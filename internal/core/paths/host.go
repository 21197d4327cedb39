// SPDX-License-Identifier: Apache-2.0

package paths

import "slices"

// Device is a network device of one namespace.
type Device struct {
	Index int
	Name  string
	Kind  string // as the kernel says: "veth", "bridge", "tuntap", "device" (hardware), ...
	// Parent is the other end of a pair, or the device below a VLAN, a macvlan or a tunnel; 0 =
	// none.
	Parent int
	// Away says that the parent is in another namespace.
	Away bool
	// Master is the bridge or bond that the device is a port of, 0 = none.
	Master int
	// Addressed says that the device has an address that is not link-local: the host itself
	// routes what comes by it.
	Addressed bool
	// XDP says that an XDP program sees what comes by the device before anything else does.
	XDP bool
}

// DeviceList is the network devices of a host's namespace, ordered by index.
type DeviceList []Device

// Link is a device whose directions are steered.
type Link struct {
	Device          string
	Egress, Ingress bool
	Local           bool // ingress counts what comes from this host, too
}

// Workload is a workload as its source knows it.
type Workload struct {
	Key, Name string
	Devices   []int // indices of the host's ends
	// Whole says that all that is sent in its namespace is the workload's, not only what comes
	// by its devices.
	Whole bool
	// Sockets says that what its sockets send by another device is known by its cgroup.
	Sockets bool
	// Inside are the devices in the namespaces in which its devices have their other ends.
	Inside []Interface
	// Past is the device of the host that packets got into the workload without passing, "" =
	// none.
	Past string
}

// Interface is a device inside of a workload's namespace.
type Interface struct {
	Device
	// Host says that the parent is a device of the host.
	Host bool
	// Out says of a pair that the namespace of its other end has another way out than back
	// here: without one it is a container inside of this one.
	Out bool
}

// Port is a device of the host at which a workload's packets are taken.
type Port struct {
	Name  string
	Index int
}

func (h DeviceList) at(index int) (d Device, ok bool) {
	i, ok := slices.BinarySearchFunc(h, index, func(d Device, index int) int { return d.Index - index })
	if !ok {
		return Device{}, false
	}
	return h[i], true
}

func (h DeviceList) named(name string) (d Device, ok bool) {
	i := slices.IndexFunc(h, func(d Device) bool { return d.Name == name })
	if i < 0 {
		return Device{}, false
	}
	return h[i], true
}

// portsOf returns the devices of which a bridge or bond is the master.
func (h DeviceList) portsOf(master int) (list []Device) {
	for _, d := range h {
		if d.Master == master {
			list = append(list, d)
		}
	}
	return list
}

// isPair reports whether a device is one end of a pair.
func (d Device) isPair() bool { return d.Kind == "veth" || d.Kind == "netkit" }

// otherEnd returns the other end of a pair of which both are here.
func (h DeviceList) otherEnd(d Device) (end Device, ok bool) {
	if !d.isPair() || d.Away {
		return Device{}, false
	}
	return h.at(d.Parent)
}

// below returns a device and what its packets leave by: the devices that it stands on, and the
// ports of bridges and bonds.
func (h DeviceList) below(index int) (found []int) {
	found = []int{index}
	for i := 0; i < len(found); i++ {
		d, ok := h.at(found[i])
		if !ok {
			continue
		}
		next := []int{}
		if d.Parent != 0 && !d.Away && !d.isPair() {
			next = append(next, d.Parent)
		}
		for _, port := range h.portsOf(d.Index) {
			next = append(next, port.Index)
		}
		for _, n := range next {
			if !slices.Contains(found, n) {
				found = append(found, n)
			}
		}
	}
	return found
}

// BelowIngress returns the devices of links of ingress, and those that they stand on, each once.
func (h DeviceList) BelowIngress(links []Link) (found []int) {
	for _, l := range links {
		if d, ok := h.named(l.Device); ok && l.Ingress {
			found = append(found, h.below(d.Index)...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// mostHops bounds how many pairs a packet may pass between a port and a link.
const mostHops = 8

// across returns the bridges that a bridge's frames reach by pairs, nearest first, each with the
// end of the pair that is a port of it.
func (h DeviceList) across(bridge int) (ends []Device) {
	seen := []int{bridge}
	for i := 0; i < len(seen) && i < mostHops; i++ {
		for _, port := range h.portsOf(seen[i]) {
			end, ok := h.otherEnd(port)
			if ok && end.Master != 0 && !slices.Contains(seen, end.Master) {
				seen, ends = append(seen, end.Master), append(ends, end)
			}
		}
	}
	return ends
}
