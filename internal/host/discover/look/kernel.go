// SPDX-License-Identifier: Apache-2.0

package look

import (
	"encoding/binary"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/core/paths"
	"weir/internal/host/dump"
)

// kernel answers what the Watcher asks.
type kernel struct {
	ask   *netlink.Handle
	lists *dump.Asker
}

// host is the devices of the host, and where their other ends are.
type host struct {
	devices paths.DeviceList
	nsids   map[int]int // the number of the other end's namespace, by index
}

const noNsid = -1

// pair returns a device of the host and, of a pair whose other end is elsewhere, the number of the
// namespace that it leads into.
func (h host) pair(index int) (d paths.Device, nsid int, away bool) {
	i, ok := slices.BinarySearchFunc(h.devices, index, func(d paths.Device, index int) int { return d.Index - index })
	if !ok || h.devices[i].Kind != "veth" && h.devices[i].Kind != "netkit" {
		return paths.Device{}, noNsid, false
	}
	nsid = h.nsids[index]
	return h.devices[i], nsid, nsid != noNsid
}

// arrived returns how many packets have come by links of ingress, and by the devices that they
// stand on.
func (k kernel) arrived(h host, links []paths.Link) (sum uint64) {
	for _, index := range h.devices.BelowIngress(links) {
		if c, err := k.counts(index, noNsid); err == nil {
			sum += c.in
		}
	}
	return sum
}

// programmed reports whether a workload's device has a program of XDP, of whose end the kernel may
// give no notice.
func (h host) programmed(workloads []paths.Workload) bool {
	return slices.ContainsFunc(h.devices, func(d paths.Device) bool {
		return d.XDP && slices.ContainsFunc(workloads, func(w paths.Workload) bool { return slices.Contains(w.Devices, d.Index) })
	})
}

// entry is a device as the kernel lists it.
type entry struct {
	paths.Device
	nsid int // the number of its other end's namespace, noNsid if that is the same
	counts
}

// counts are the packets of a device.
type counts struct{ in, out uint64 }

// read lists the devices of the host.
func (k kernel) read() (host, error) {
	list, err := k.list(noNsid)
	if err != nil {
		return host{}, err
	}
	addresses, err := dump.Whole(func() ([]netlink.Addr, error) { return k.ask.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return host{}, err
	}
	addressed := map[int]bool{}
	for _, a := range addresses {
		if a.IP.IsGlobalUnicast() {
			addressed[a.LinkIndex] = true
		}
	}
	h := host{nsids: map[int]int{}}
	for _, e := range list {
		e.Addressed = addressed[e.Index]
		h.devices = append(h.devices, e.Device)
		h.nsids[e.Index] = e.nsid
	}
	slices.SortFunc(h.devices, func(a, b paths.Device) int { return a.Index - b.Index })
	return h, nil
}

// isHost reports whether the number of the host's own namespace, which it may have in itself, is
// among these, or cannot be told. Some kernels say it in notices of the host's own devices.
func (k kernel) isHost(numbers map[int]bool) bool {
	if len(numbers) == 0 {
		return false
	}
	own, err := netns.Get()
	if err != nil {
		return true
	}
	defer own.Close()
	number, err := k.ask.GetNetNsIdByFd(int(own))
	return err != nil || numbers[number]
}

// list lists the devices of the namespace that has a number here, noNsid = of the host's. Numbers
// in the answer are those that namespaces have here, too.
func (k kernel) list(nsid int) ([]entry, error) {
	return dump.Whole(func() (list []entry, err error) {
		err = k.lists.Each(unix.RTM_GETLINK, unix.NLM_F_DUMP, request(0, nsid), func(body []byte) {
			list = append(list, entryOf(body))
		})
		return list, err
	})
}

// counts returns what a device has received and sent, of the namespace with a number. An answer
// without what protocols count (RTEXT_FILTER_SKIP_STATS) has not what the device counts either, on
// Linux 7.3.
func (k kernel) counts(index, nsid int) (c counts, err error) {
	err = k.lists.Each(unix.RTM_GETLINK, 0, request(index, nsid), func(body []byte) { c = entryOf(body).counts })
	return c, err
}

// request asks for a device, 0 = for all of them.
func request(index, nsid int) []byte {
	body := make([]byte, unix.SizeofIfInfomsg, unix.SizeofIfInfomsg+2*(unix.SizeofRtAttr+4))
	binary.NativeEndian.PutUint32(body[4:], uint32(index))
	if nsid != noNsid {
		body = attribute(body, unix.IFLA_TARGET_NETNSID, uint32(nsid))
	}
	return body
}

func attribute(body []byte, kind uint16, value uint32) []byte {
	body = binary.NativeEndian.AppendUint16(body, unix.SizeofRtAttr+4)
	body = binary.NativeEndian.AppendUint16(body, kind)
	return binary.NativeEndian.AppendUint32(body, value)
}

// entryOf reads a device from what the kernel answers.
func entryOf(body []byte) entry {
	e := entry{nsid: noNsid, Device: paths.Device{Kind: "device"}}
	if len(body) < unix.SizeofIfInfomsg {
		return e
	}
	e.Index = int(int32(binary.NativeEndian.Uint32(body[4:])))
	dump.Attributes(body[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) {
		switch {
		case kind == unix.IFLA_IFNAME:
			e.Name = text(value)
		case kind == unix.IFLA_LINKINFO:
			dump.Attributes(value, func(kind uint16, value []byte) {
				if kind == unix.IFLA_INFO_KIND {
					e.Kind = kindOf(text(value))
				}
			})
		case kind == unix.IFLA_XDP:
			dump.Attributes(value, func(kind uint16, value []byte) {
				if kind == unix.IFLA_XDP_ATTACHED && len(value) > 0 {
					e.XDP = value[0] != 0 // XDP_ATTACHED_NONE
				}
			})
		case kind == unix.IFLA_STATS64 && len(value) >= 16:
			e.counts = counts{binary.NativeEndian.Uint64(value), binary.NativeEndian.Uint64(value[8:])}
		case len(value) < 4:
		case kind == unix.IFLA_LINK:
			e.Parent = int(int32(binary.NativeEndian.Uint32(value)))
		case kind == unix.IFLA_MASTER:
			e.Master = int(int32(binary.NativeEndian.Uint32(value)))
		case kind == unix.IFLA_LINK_NETNSID:
			e.nsid = int(int32(binary.NativeEndian.Uint32(value)))
			e.Away = e.nsid != noNsid
		}
	})
	return e
}

func text(value []byte) string { return strings.TrimRight(string(value), "\x00") }

// kindOf returns a kind as package paths names it.
func kindOf(kind string) string {
	if kind == "tun" {
		return "tuntap"
	}
	return kind
}

// own returns the number that the host's namespace has for itself, noNsid if it has none.
func (k kernel) own() int {
	f, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return noNsid
	}
	defer f.Close()
	nsid, err := k.ask.GetNetNsIdByFd(int(f.Fd()))
	if err != nil {
		return noNsid
	}
	return nsid
}
