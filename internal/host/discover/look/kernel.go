// SPDX-License-Identifier: Apache-2.0

package look

import (
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/core/paths"
	"weir/internal/host/dump"
)

// kernel answers what the Watcher asks.
type kernel struct{ ask *netlink.Handle }

// host is the devices of the host, and where their other ends are.
type host struct {
	devices paths.Host
	nsids   map[int]int // the number of the other end's namespace, by index
}

const noNsid = -1

// read lists the devices of the host.
func (k kernel) read() (host, error) {
	list, err := dump.Whole(k.ask.LinkList)
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
	for _, entry := range list {
		d := deviceOf(entry)
		d.Addressed = addressed[d.Index]
		h.devices = append(h.devices, d)
		h.nsids[d.Index] = entry.Attrs().NetNsID
	}
	slices.SortFunc(h.devices, func(a, b paths.Device) int { return a.Index - b.Index })
	return h, nil
}

func deviceOf(entry netlink.Link) paths.Device {
	a := entry.Attrs()
	return paths.Device{Index: a.Index, Name: a.Name, Kind: entry.Type(), Parent: a.ParentIndex, Away: a.NetNsID != noNsid, Master: a.MasterIndex}
}

// counts are the packets of a device.
type counts struct{ in, out uint64 }

func packets(entry netlink.Link) counts {
	if s := entry.Attrs().Statistics; s != nil {
		return counts{s.RxPackets, s.TxPackets}
	}
	return counts{}
}

// inside lists the devices of the namespace that has a number here. Numbers in the answer are
// those that namespaces have here, too.
func (k kernel) inside(nsid int) ([]netlink.Link, error) {
	return dump.Whole(func() ([]netlink.Link, error) {
		request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		request.AddData(nl.NewRtAttr(unix.IFLA_TARGET_NETNSID, nl.Uint32Attr(uint32(nsid))))
		messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
		if err != nil {
			return nil, err
		}
		var list []netlink.Link
		for _, m := range messages {
			entry, err := netlink.LinkDeserialize(nil, m)
			if err != nil {
				return nil, err
			}
			list = append(list, entry)
		}
		return list, nil
	})
}

// sent returns how many packets have left by a device of the host.
func (k kernel) sent(index int) (uint64, error) {
	entry, err := k.ask.LinkByIndex(index)
	if err != nil {
		return 0, err
	}
	return packets(entry).out, nil
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
