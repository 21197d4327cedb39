// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
	"weir/internal/host/dump"
)

// With segmentation offload a sender hands down packets of up to 64 KB, and a
// qdisc can only send them whole: 5 ms of a 100 Mbit/s link in which no other class
// sends. The kernel bounds the size of packets by device, not by destination, so that a limit
// at the devices of workloads slows traffic within the host. The programs at links have the
// kernel split what leaves by them, at the devices of a Splitter (bpf/marking/split.h).

const (
	// gsoReserve is what TCP leaves free of gso_max_size for headers
	// (MAX_TCP_HEADER + 1 in the kernel, 321 on 64-bit machines).
	gsoReserve = 321

	// gsoNone is the kernel's default: no limit before BIG TCP.
	gsoNone = 65536
)

// GSOLimit is the largest packet in bytes that a link of the given capacity
// should see of a workload with a reservation: what it carries in 1 ms, at least two frames (one
// would switch offload off, at many times the CPU time), at most 64 KB. 100 Mbit/s: 12,500.
func GSOLimit(capacity policy.Rate) uint32 {
	perMillisecond := uint64(capacity) / 8 / 1000
	return uint32(min(max(perMillisecond, 2*policy.FullFrame+gsoReserve), gsoNone))
}

// SplitOver is the size in bytes beyond which packets for a link of the given capacity are
// split, 0 = none is: what it carries in 1.2 ms, at least GSOLimit. Over paths with a delay of some
// ms a TCP connection builds packets of 1.17 ms of its own rate (tcp_tso_autosize, with a pacing of
// 120 %), so that one that has a link for itself stays whole. 100 Mbit/s: 15,000.
func SplitOver(capacity policy.Rate) uint32 {
	over := max(GSOLimit(capacity), uint32(min(uint64(capacity)*12/80_000, gsoNone)))
	if capacity == 0 || over >= gsoNone {
		return 0
	}
	return over
}

// Splitter are the devices at which the kernel splits packets for all links of a network namespace:
// a macvlan that takes none of them whole, on one end of a pair of veths, where a program takes the
// frames. The other end has no use, but for keeping the first one up.
type Splitter struct {
	In  int // index of the macvlan
	Out int // index of the veth below
}

const (
	splitIn    = "weir-gso"
	splitOut   = "weir-gso-out"
	splitEnd   = "weir-gso-end"
	splitAlias = "weir: splits offloaded packets for slow links"

	// splitSize is the macvlan's gso_max_size: less than what any link has split, and no less
	// than the kernel takes.
	splitSize = 1024
)

// EnsureSplitter makes what is missing of the devices, and brings them up. The error wraps
// dataplane.ErrNoSupport if the kernel has not both kinds of devices.
func (c *Conn) EnsureSplitter() (Splitter, error) {
	fail := func(err error) (Splitter, error) {
		if errors.Is(err, unix.EOPNOTSUPP) {
			return Splitter{}, fmt.Errorf("make device %s: %w: it has no devices of the kinds veth and macvlan; load or build the modules", splitIn, dataplane.ErrNoSupport)
		}
		return Splitter{}, Explain("make device "+splitIn, err)
	}
	if s, err := c.Splitter(); err != nil || s != (Splitter{}) {
		return s, err
	}
	// Half of one has no use, and what another program has changed is made anew.
	if err := c.DeleteSplitter(); err != nil {
		return Splitter{}, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.NumTxQueues, attrs.NumRxQueues = splitOut, pairMTU, 1, 1
	if err := c.links.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: splitEnd, PeerMTU: pairMTU}); err != nil {
		return fail(err)
	}
	out, err := c.links.LinkByName(splitOut)
	if err != nil {
		return fail(err)
	}
	attrs = netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.ParentIndex = splitIn, pairMTU, out.Attrs().Index
	err = c.links.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_PRIVATE})
	for _, name := range []string{splitEnd, splitOut, splitIn} {
		if err == nil {
			err = c.bringUp(name)
		}
	}
	if err != nil {
		return fail(errors.Join(err, c.DeleteSplitter()))
	}
	return c.Splitter()
}

// bringUp readies one of the devices.
func (c *Conn) bringUp(name string) error {
	dev, err := c.links.LinkByName(name)
	if err != nil {
		return err
	}
	err = c.links.LinkSetAlias(dev, splitAlias)
	if name == splitIn && err == nil {
		err = c.links.LinkSetGSOMaxSize(dev, splitSize)
		if err == nil && dev.Attrs().GSOIPv4MaxSize != 0 {
			err = c.links.LinkSetGSOIPv4MaxSize(dev, splitSize)
		}
	}
	return errors.Join(err, c.up(dev))
}

// Splitter returns the devices, or none if one of them is missing, down, or not as EnsureSplitter
// has made it.
func (c *Conn) Splitter() (Splitter, error) {
	var found [3]part
	for i, name := range []string{splitIn, splitOut, splitEnd} {
		dev, err := c.asks.part(name)
		if errors.Is(err, unix.ENODEV) {
			return Splitter{}, nil
		}
		if err != nil {
			return Splitter{}, Explain("look up network device "+name, err)
		}
		if dev.alias != splitAlias || !dev.up {
			return Splitter{}, nil
		}
		found[i] = dev
	}
	in, out, end := found[0], found[1], found[2]
	small := in.gso <= splitSize && in.gsoIPv4 <= splitSize
	if in.parent != out.index || out.parent != end.index || in.master != 0 || !small {
		return Splitter{}, nil
	}
	return Splitter{In: int(in.index), Out: int(out.index)}, nil
}

// part is what Splitter looks at in one of the devices.
type part struct {
	index, parent, master, gso, gsoIPv4 uint32
	alias                               string
	up                                  bool
}

// part asks for one of the devices, every second: hence without the statistics, and by a socket
// that stays. The error is unix.ENODEV if it is not there.
func (a *asks) part(name string) (p part, err error) {
	a.Lock()
	defer a.Unlock()
	err = a.Each(unix.RTM_GETLINK, 0, byName(name), func(body []byte) {
		if len(body) < unix.SizeofIfInfomsg {
			return
		}
		p.index, p.up = binary.NativeEndian.Uint32(body[4:]), binary.NativeEndian.Uint32(body[8:])&unix.IFF_UP != 0
		dump.Attributes(body[unix.SizeofIfInfomsg:], p.take)
	})
	return p, err
}

// take takes in an attribute of the device.
func (p *part) take(kind uint16, value []byte) {
	if kind == unix.IFLA_IFALIAS {
		p.alias = strings.TrimRight(string(value), "\x00")
	}
	if len(value) < 4 {
		return
	}
	n := binary.NativeEndian.Uint32(value)
	switch kind {
	case unix.IFLA_LINK:
		p.parent = n
	case unix.IFLA_MASTER:
		p.master = n
	case unix.IFLA_GSO_MAX_SIZE:
		p.gso = n
	case unix.IFLA_GSO_IPV4_MAX_SIZE:
		p.gsoIPv4 = n
	}
}

// skipStatistics is RTEXT_FILTER_SKIP_STATS of the kernel.
const skipStatistics = 1 << 3

// byName asks for a device without its statistics.
func byName(name string) []byte {
	body := make([]byte, unix.SizeofIfInfomsg)
	for _, attr := range []*nl.RtAttr{nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStatistics)), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name))} {
		body = append(body, attr.Serialize()...)
	}
	return body
}

// DeleteSplitter removes the devices; no error if there are none.
func (c *Conn) DeleteSplitter() error {
	for _, name := range []string{splitIn, splitOut} { // the end goes with the latter
		dev, err := c.links.LinkByName(name)
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) || err == nil && !slices.Contains([]string{"macvlan", pairKind}, dev.Type()) {
			continue
		}
		if err == nil {
			err = c.links.LinkDel(dev)
		}
		if err != nil && !errors.Is(err, unix.ENODEV) {
			return Explain("remove device "+name, err)
		}
	}
	return nil
}
