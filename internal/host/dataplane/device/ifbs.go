// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane"
	"weir/internal/host/dump"
)

// What stands for the ingress of a link is a pair of veths where the kernel has tcx, and an IFB
// device elsewhere (bpf/marking/classify.bpf.c says why). Both are found by the name and the alias
// of the device that has the qdisc.
const (
	ifbKind  = "ifb"
	pairKind = "veth"
)

// pairMTU is the MTU of a pair. The kernel drops what is larger there, so it is that of any device.
const pairMTU = 65535

// IFBs lists Weir's IFB devices, and the pairs.
func (c *Conn) IFBs() ([]IFB, error) {
	all, err := dump.Whole(c.links.LinkList)
	if err != nil {
		return nil, Explain("list the network devices", err)
	}
	var list []IFB
	for _, dev := range all {
		kind := dev.Type() == ifbKind || dev.Type() == pairKind
		if i, ours := ifbOf(dev.Attrs().Alias); ours && kind && IsIFBName(dev.Attrs().Name) {
			list = append(list, i)
		}
	}
	return list, nil
}

// EnsureIFB makes an IFB device for a link, or a pair, if it is not there, and brings it up. An
// IFB in the place of a pair, and the other way round, is left, and Pair says so.
// Its queue length is what it may hold beyond its qdisc.
func (c *Conn) EnsureIFB(i IFB, link Device, pair bool) (Device, error) {
	name := i.Name()
	fail := func(err error) (Device, error) {
		return Device{}, Explain(fmt.Sprintf("make device %s for %s", name, i), err)
	}
	have, err := c.links.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		err = c.links.LinkAdd(fresh(i, link, pair))
		if errors.Is(err, unix.EOPNOTSUPP) {
			kind := ifbKind
			if pair {
				kind = pairKind
			}
			return Device{}, fmt.Errorf("make device %s: %w: it has no devices of the kind %s; load or build the module", name, dataplane.ErrNoSupport, kind)
		}
		if err == nil {
			have, err = c.links.LinkByName(name)
		}
	}
	if err != nil {
		return fail(err)
	}
	if have.Type() != ifbKind && have.Type() != pairKind {
		return fail(fmt.Errorf("a device of this name is there, of kind %s; rename it", have.Type()))
	}
	if alias := i.alias(); have.Attrs().Alias != alias {
		if err := c.links.LinkSetAlias(have, alias); err != nil {
			return fail(err)
		}
	}
	if err := c.up(have); err != nil {
		return fail(err)
	}
	if back, err := c.links.LinkByName(i.Back()); err == nil {
		if err := c.up(back); err != nil {
			return fail(err)
		}
	}
	return c.Lookup(name)
}

// fresh is the device that EnsureIFB makes.
func fresh(i IFB, link Device, pair bool) netlink.Link {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = i.Name(), link.MTU
	if !pair {
		return &netlink.Ifb{LinkAttrs: attrs}
	}
	attrs.MTU, attrs.NumTxQueues, attrs.NumRxQueues = pairMTU, 1, 1
	return &netlink.Veth{LinkAttrs: attrs, PeerName: i.Back(), PeerMTU: pairMTU}
}

// up brings a device up. It gets no address of its own, with which it would send.
func (c *Conn) up(dev netlink.Link) error {
	if dev.Attrs().Flags&1 != 0 { // net.FlagUp
		return nil
	}
	if dev.Type() != ifbKind {
		// The kernel refuses it where IPv6 is off, and then it needs no telling.
		_ = c.links.LinkSetIP6AddrGenMode(dev, nl.IN6_ADDR_GEN_MODE_NONE)
		if err := c.links.LinkSetARPOff(dev); err != nil {
			return err
		}
	}
	return c.links.LinkSetUp(dev)
}

// BackOf returns the index of the second end of a pair, 0 if there is an IFB, or only half a pair.
func (c *Conn) BackOf(i IFB) (int, error) {
	first, err := c.links.LinkByName(i.Name())
	if err == nil && first.Type() != pairKind {
		return 0, nil
	}
	if err != nil {
		return 0, Explain("look up network device "+i.Name(), err)
	}
	back, err := c.links.LinkByName(i.Back())
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return 0, nil
	case err != nil:
		return 0, Explain("look up network device "+i.Back(), err)
	case back.Type() != pairKind || back.Attrs().ParentIndex != first.Attrs().Index:
		return 0, nil
	}
	return back.Attrs().Index, nil
}

// CameBy returns the index of the device by which packets come that have had their turn: the second
// end of a pair, or the IFB.
func (i IFB) CameBy() (int, error) {
	dev, err := net.InterfaceByName(i.Back())
	if err != nil {
		dev, err = net.InterfaceByName(i.Name())
	}
	if err != nil {
		return 0, fmt.Errorf("look for the device of %s: %w", i, err)
	}
	return dev.Index, nil
}

// DeleteIFB removes an IFB device, or a pair; no error if there is none.
func (c *Conn) DeleteIFB(i IFB) error {
	name := i.Name()
	have, err := c.links.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) || err == nil && have.Type() != ifbKind && have.Type() != pairKind {
		return nil
	}
	if err == nil {
		err = c.links.LinkDel(have)
	}
	return Explain("remove device "+name, err)
}
