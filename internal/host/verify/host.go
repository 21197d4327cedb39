// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/host/dump"
)

// host is the links of this host, and its namespaces.
type host struct {
	links   []api.LinkStatus // those of egress
	indices []int            // of their devices
	ingress bool             // a link divides what comes in
	ask     *netlink.Handle
}

func newHost(status api.Status) (*host, error) {
	ask, err := netlink.NewHandle()
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	h := &host{ask: ask}
	for _, l := range status.Links {
		if l.Direction == "ingress" {
			h.ingress = true
			continue
		}
		dev, err := ask.LinkByName(l.Device)
		if err != nil || slices.Contains(h.indices, dev.Attrs().Index) {
			continue // it is gone, or the link of a zone
		}
		h.links, h.indices = append(h.links, l), append(h.indices, dev.Attrs().Index)
	}
	return h, nil
}

// end is an interface of a workload.
type end struct {
	name, netns string
	addresses   []netip.Addr // global ones
}

// inside returns the interfaces in the namespaces that devices of the host lead into.
func (h *host) inside(devices []string) (ends []end, err error) {
	seen := map[int]bool{}
	for _, name := range devices {
		dev, err := h.ask.LinkByName(name)
		if err != nil {
			continue // it is gone
		}
		nsid := dev.Attrs().NetNsID
		if nsid < 0 || seen[nsid] {
			continue
		}
		seen[nsid] = true
		path := h.pathOf(nsid)
		if path == "" {
			continue
		}
		list, err := interfaces(path)
		if err != nil {
			return nil, fmt.Errorf("list the interfaces in %s: %w", path, err)
		}
		ends = append(ends, list...)
	}
	return ends, nil
}

// neighbours returns an address of each family of the first workloads but one that have some.
func (h *host) neighbours(workloads []api.Workload, but string) (list []netip.Addr, err error) {
	var has [2]bool // IPv4, IPv6
	for _, w := range workloads {
		if w.Name == but || len(w.Devices) == 0 {
			continue
		}
		ends, err := h.inside(w.Devices)
		if err != nil {
			return nil, err
		}
		for _, e := range ends {
			for _, a := range e.addresses {
				family := 0
				if a.Is6() {
					family = 1
				}
				if !has[family] {
					has[family], list = true, append(list, a)
				}
			}
		}
		if has[0] && has[1] {
			break
		}
	}
	return list, nil
}

// pathOf returns a file of the namespace that has a number here, "" if there is none.
func (h *host) pathOf(nsid int) string {
	for _, pattern := range []string{"/run/netns/*", "/proc/[0-9]*/ns/net"} {
		files, _ := filepath.Glob(pattern) // the pattern is right
		for _, path := range files {
			f, err := os.Open(path)
			if err != nil {
				continue
			}
			id, err := h.ask.GetNetNsIdByFd(int(f.Fd()))
			_ = f.Close()
			if err == nil && id == nsid {
				return path
			}
		}
	}
	return ""
}

// interfaces returns the interfaces of a namespace that are up and have an address, but lo.
func interfaces(path string) (ends []end, err error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	ask, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer ask.Close()
	list, err := dump.Whole(ask.LinkList)
	if err != nil {
		return nil, err
	}
	addresses, err := dump.Whole(func() ([]netlink.Addr, error) { return ask.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		e := end{name: l.Attrs().Name, netns: path}
		for _, a := range addresses {
			if ip, ok := netip.AddrFromSlice(a.IP); ok && a.LinkIndex == l.Attrs().Index && a.IP.IsGlobalUnicast() {
				e.addresses = append(e.addresses, ip.Unmap())
			}
		}
		if len(e.addresses) > 0 && l.Attrs().RawFlags&unix.IFF_UP != 0 && l.Attrs().Index != loopback {
			ends = append(ends, e)
		}
	}
	return ends, nil
}

const loopback = 1 // index of lo in every network namespace

// sniffers listens at a workload's devices, to what comes by them, and at the links, to what
// leaves.
func (h *host) sniffers(devices []string) (ports, links []sniffer, err error) {
	if ports, err = h.ports(devices, false); err != nil {
		return ports, nil, err
	}
	for _, index := range h.indices {
		s, err := listen(index, true)
		if err != nil {
			return ports, links, err
		}
		links = append(links, s)
	}
	return ports, links, nil
}

// ports listens at a workload's devices, to what leaves by them or comes.
func (h *host) ports(devices []string, out bool) (list []sniffer, err error) {
	for _, name := range devices {
		dev, err := h.ask.LinkByName(name)
		if err != nil {
			continue // it is gone
		}
		s, err := listen(dev.Attrs().Index, out)
		if err != nil {
			return list, err
		}
		list = append(list, s)
	}
	return list, nil
}

func closeAll(lists ...[]sniffer) {
	for _, s := range slices.Concat(lists...) {
		s.close()
	}
}
