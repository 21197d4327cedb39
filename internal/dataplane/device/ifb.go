// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/dataplane"
)

// ifbPrefix begins the names of the IFB devices that stand for a link's ingress.
const ifbPrefix = "weir-in-"

// IFBName is the name of the IFB device for a link: weir-in-eth0. Of a long name
// it has the beginning and four digits that tell it from others:
// weir-in-enp6a0f.
func IFBName(link string) string {
	const longest = unix.IFNAMSIZ - 1 - len(ifbPrefix)
	if len(link) <= longest {
		return ifbPrefix + link
	}
	sum := fnv.New32a()
	sum.Write([]byte(link)) // never fails
	return fmt.Sprintf("%s%s%04x", ifbPrefix, link[:longest-4], sum.Sum32()&0xffff)
}

// IsIFBName says whether an IFB device of Weir's would have such a name.
func IsIFBName(name string) bool { return strings.HasPrefix(name, ifbPrefix) }

// ifbAlias begins the alias of an IFB device of Weir's, before its link's name.
const ifbAlias = "weir: ingress of "

// IFBLink is the link whose ingress the device of this name stands for; "" if it is
// no IFB of Weir's.
func (c *Conn) IFBLink(name string) string {
	if !IsIFBName(name) {
		return ""
	}
	dev, err := c.links.LinkByName(name)
	if err != nil || dev.Type() != "ifb" {
		return ""
	}
	link, ours := strings.CutPrefix(dev.Attrs().Alias, ifbAlias)
	if !ours {
		return ""
	}
	return link
}

// EnsureIFB makes the IFB device of a link, if it is not there, and brings it up.
// Its queue length is what it may hold beyond its qdisc.
func (c *Conn) EnsureIFB(link Device) (Device, error) {
	name := IFBName(link.Name)
	fail := func(err error) (Device, error) {
		return Device{}, Explain(fmt.Sprintf("make device %s for the ingress of %s", name, link.Name), err)
	}
	have, err := c.links.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = name, link.MTU
		err = c.links.LinkAdd(&netlink.Ifb{LinkAttrs: attrs})
		if errors.Is(err, unix.EOPNOTSUPP) {
			return Device{}, fmt.Errorf("make device %s: %w: it has no IFB devices; load or build the module ifb", name, dataplane.ErrNoSupport)
		}
		if err == nil {
			have, err = c.links.LinkByName(name)
		}
	}
	if err != nil {
		return fail(err)
	}
	if have.Type() != "ifb" {
		return fail(fmt.Errorf("a device of this name is there, of kind %s; rename it", have.Type()))
	}
	if alias := ifbAlias + link.Name; have.Attrs().Alias != alias {
		if err := c.links.LinkSetAlias(have, alias); err != nil {
			return fail(err)
		}
	}
	if have.Attrs().Flags&1 == 0 { // net.FlagUp
		if err := c.links.LinkSetUp(have); err != nil {
			return fail(err)
		}
	}
	return c.Lookup(name)
}

// DeleteIFB removes the IFB device of a link; no error if there is none.
func (c *Conn) DeleteIFB(link string) error {
	name := IFBName(link)
	have, err := c.links.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) || err == nil && have.Type() != "ifb" {
		return nil
	}
	if err == nil {
		err = c.links.LinkDel(have)
	}
	return Explain("remove device "+name, err)
}

// Sources are the devices by which packets of a link may have come when they have
// reached a workload: the link itself, the bridge or bond that it is in, and VLANs
// and the like on top of those. Indices, the link's first.
func (c *Conn) Sources(link Device) ([]int, error) {
	all, err := c.links.LinkList()
	if err != nil {
		return nil, Explain("list the network devices", err)
	}
	found := []int{link.Index}
	for i := 0; i < len(found); i++ {
		for _, dev := range all {
			attrs := dev.Attrs()
			// A veth's "parent" is its other end, perhaps in another namespace.
			stands := attrs.ParentIndex == found[i] && attrs.NetNsID < 0 && slices.Contains([]string{"vlan", "macvlan", "ipvlan"}, dev.Type())
			holds := attrs.Index == found[i] && attrs.MasterIndex != 0
			switch {
			case stands && !slices.Contains(found, attrs.Index):
				found = append(found, attrs.Index)
			case holds && !slices.Contains(found, attrs.MasterIndex):
				found = append(found, attrs.MasterIndex)
			}
		}
	}
	return found, nil
}
