// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/vishvananda/netlink"

	"weir/internal/core/closest"
	"weir/internal/core/policy/framing"
	"weir/internal/host/dataplane"
	"weir/internal/host/dump"
)

// Device is one network device as it was when it was looked up.
type Device struct {
	Name           string
	Index          int
	Peer           int    // index of the other end of a pair, in its own network namespace, or of the device below; 0 = none
	MTU            int    // bytes, without the Ethernet header
	GSOMaxSize     uint32 // bytes, IPv6 and all that is not IPv4
	GSOIPv4MaxSize uint32 // bytes; 0 on kernels before 6.3, where GSOMaxSize counts for both
	Ethernet       bool   // packets begin with an Ethernet header; those of tun, wg or ppp do not
	Tag            int    // bytes that it and the devices below it add to each frame for VLANs, and Conn.Wire
}

// Lookup finds a device by name. If there is none, the error wraps
// dataplane.ErrNoDevice and names the devices that come closest.
func (c *Conn) Lookup(name string) (Device, error) {
	link, err := c.links.LinkByName(name)
	if err == nil {
		dev := fromAttrs(link.Attrs())
		dev.Tag = c.tag(link) + c.Wire
		return dev, nil
	}
	var notFound netlink.LinkNotFoundError
	if !errors.As(err, &notFound) {
		return Device{}, explain("look up network device "+name, err)
	}
	links, err := dump.Whole(c.links.LinkList)
	if err != nil {
		return Device{}, fmt.Errorf("%s: %w", name, dataplane.ErrNoDevice)
	}
	names := make([]string, len(links))
	for i, link := range links {
		names[i] = link.Attrs().Name
	}
	return Device{}, fmt.Errorf("%s: %w; %s", name, dataplane.ErrNoDevice, suggest(name, names))
}

const stacked = 8 // devices that may stand on each other, as in the kernel

// tag is what a device and those below it add to a frame for VLANs, in bytes. A device whose parent
// is elsewhere, or gone, adds its own.
func (c *Conn) tag(link netlink.Link) (bytes int) {
	for range stacked {
		if link.Type() == "vlan" {
			bytes += framing.VLANTag
		}
		below := link.Attrs().ParentIndex
		if below == 0 || link.Attrs().NetNsID >= 0 || !slices.Contains([]string{"vlan", "macvlan", "ipvlan"}, link.Type()) {
			break
		}
		var err error
		if link, err = c.links.LinkByIndex(below); err != nil {
			break
		}
	}
	return bytes
}

// LookupIndex finds a device by its index.
func (c *Conn) LookupIndex(index int) (Device, error) {
	link, err := c.links.LinkByIndex(index)
	if err == nil {
		return fromAttrs(link.Attrs()), nil
	}
	var notFound netlink.LinkNotFoundError
	if errors.As(err, &notFound) {
		return Device{}, fmt.Errorf("device with index %d: %w", index, dataplane.ErrNoDevice)
	}
	return Device{}, explain(fmt.Sprintf("look up network device %d", index), err)
}

func fromAttrs(attrs *netlink.LinkAttrs) Device {
	return Device{
		Name: attrs.Name, Index: attrs.Index, Peer: attrs.ParentIndex, MTU: attrs.MTU,
		GSOMaxSize: attrs.GSOMaxSize, GSOIPv4MaxSize: attrs.GSOIPv4MaxSize,
		Ethernet: attrs.EncapType == "ether" || attrs.EncapType == "loopback",
	}
}

// suggestions is how many device names an error may list.
const suggestions = 8

// suggest words the remedy for a device name that does not exist.
func suggest(name string, existing []string) string {
	if len(existing) == 0 {
		return "there is no network device at all"
	}
	names := append([]string(nil), existing...)
	sort.SliceStable(names, func(i, j int) bool {
		return closest.Distance(name, names[i]) < closest.Distance(name, names[j])
	})
	if nearest := names[0]; closest.Distance(name, nearest) <= 2 {
		return fmt.Sprintf("did you mean %s?", nearest)
	}
	more := ""
	if len(names) > suggestions {
		more = fmt.Sprintf(" and %d more", len(names)-suggestions)
		names = names[:suggestions]
	}
	sort.Strings(names)
	return fmt.Sprintf("there are %s%s", strings.Join(names, ", "), more)
}
