// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/host/dump"
)

// IFB says what an IFB device of Weir's, or a pair in its place, stands for: the ingress of a link,
// or a zone of it in one direction.
type IFB struct {
	Link, Zone string
	Ingress    bool
}

// The beginnings of the names of IFB devices, and of their aliases.
const (
	ifbPrefix        = "weir-in-"
	zonePrefix       = "weir-z-"
	zoneInPrefix     = "weir-zi-"
	backPrefix       = "weir-ib-" // the second end of weir-in-
	zoneBackPrefix   = "weir-zb-" // of weir-z-
	zoneInBackPrefix = "weir-zj-" // of weir-zi-
	ifbAlias         = "weir: ingress of "
	zoneAlias        = "weir: zone %s of %s"
	zoneIngressAlias = "weir: ingress of zone %s of %s"
)

// Name returns the device's name: weir-in-eth0, weir-z-eth0-wan, weir-zi-eth0-wan. Of a long
// one it has the beginning and four digits that tell it from others: weir-in-enp6a0f.
func (i IFB) Name() string {
	prefix, name := ifbPrefix, i.Link
	if i.Zone != "" {
		prefix, name = zonePrefix, i.Link+"-"+i.Zone
		if i.Ingress {
			prefix = zoneInPrefix
		}
	}
	return i.named(prefix, name)
}

// Back returns the name of the second end of a pair: weir-ib-eth0.
func (i IFB) Back() string {
	switch {
	case i.Zone == "":
		return i.named(backPrefix, i.Link)
	case i.Ingress:
		return i.named(zoneInBackPrefix, i.Link+"-"+i.Zone)
	}
	return i.named(zoneBackPrefix, i.Link+"-"+i.Zone)
}

func (i IFB) named(prefix, name string) string {
	longest := unix.IFNAMSIZ - 1 - len(prefix)
	if len(name) <= longest {
		return prefix + name
	}
	sum := fnv.New32a()
	sum.Write([]byte(name)) // never fails
	return fmt.Sprintf("%s%s%04x", prefix, name[:longest-4], sum.Sum32()&0xffff)
}

// String returns what the device stands for, as people say it: "eth0 wan ingress".
func (i IFB) String() string {
	words := []string{i.Link}
	if i.Zone != "" {
		words = append(words, i.Zone)
	}
	if i.Ingress {
		words = append(words, "ingress")
	}
	return strings.Join(words, " ")
}

// alias is what the device is known by: names are cut off.
func (i IFB) alias() string {
	switch {
	case i.Zone == "":
		return ifbAlias + i.Link
	case i.Ingress:
		return fmt.Sprintf(zoneIngressAlias, i.Zone, i.Link)
	}
	return fmt.Sprintf(zoneAlias, i.Zone, i.Link)
}

// ifbOf reads an alias.
func ifbOf(alias string) (i IFB, ok bool) {
	words := strings.Fields(alias)
	switch {
	case len(words) == 4:
		i = IFB{Link: words[3], Ingress: true}
	case len(words) == 5:
		i = IFB{Link: words[4], Zone: words[2]}
	case len(words) == 7:
		i = IFB{Link: words[6], Zone: words[4], Ingress: true}
	default:
		return i, false
	}
	return i, i.alias() == alias
}

// IsIFBName says whether an IFB device of Weir's, an end of a pair, or a device of a Splitter would
// have such a name.
func IsIFBName(name string) bool {
	return slices.ContainsFunc([]string{ifbPrefix, zonePrefix, zoneInPrefix, backPrefix, zoneBackPrefix, zoneInBackPrefix, splitIn},
		func(p string) bool { return strings.HasPrefix(name, p) })
}

// Sources are the devices by which packets of a link may have come when they have
// reached a workload: the link itself, the bridge or bond that it is in, and VLANs
// and the like on top of those. Indices, the link's first.
func (c *Conn) Sources(link Device) ([]int, error) {
	all, err := dump.Whole(c.links.LinkList)
	if err != nil {
		return nil, Explain("list the network devices", err)
	}
	return onTop(all, []int{link.Index}, func(kind string) bool {
		return slices.Contains([]string{"vlan", "macvlan", "ipvlan"}, kind)
	}), nil
}

// Networks are those that a link's addresses are in, on the device itself and on what stands on
// it (Sources), each once.
func (c *Conn) Networks(link Device) ([]netip.Prefix, error) {
	sources, err := c.Sources(link)
	if err != nil {
		return nil, err
	}
	addrs, err := dump.Whole(func() ([]netlink.Addr, error) { return c.links.AddrList(nil, unix.AF_UNSPEC) })
	if err != nil {
		return nil, Explain("list the addresses of "+link.Name, err)
	}
	var list []netip.Prefix
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.IP)
		if !ok || !slices.Contains(sources, a.LinkIndex) {
			continue
		}
		bits, _ := a.Mask.Size()
		if p, err := ip.Unmap().Prefix(bits); err == nil && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return list, nil
}
