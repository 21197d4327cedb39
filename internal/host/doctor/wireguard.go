// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/host/dump"
)

// The kernel's interface to a WireGuard device, as far as it is needed: linux/wireguard.h.
const (
	wgVersion   = 1
	wgGetDevice = 0
	wgSetDevice = 1
	wgName      = 2 // WGDEVICE_A_IFNAME
	wgMark      = 7 // WGDEVICE_A_FWMARK
)

// lookWireGuardMarks reads the mark that each WireGuard device gives the packets that it has
// encrypted (FwMark in wg-quick's files), which no rule need compare.
func lookWireGuardMarks() (users []MarkUser, err error) {
	links, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if l.Type() != "wireguard" { // without one the module is not loaded by the question
			continue
		}
		name := l.Attrs().Name
		mark, unread := wireGuardMark(name)
		if unread != nil && !errors.Is(unread, unix.ENODEV) { // it is gone by now
			err = errors.Join(err, fmt.Errorf("%s: %w", name, unread))
		}
		if mark != 0 {
			users = append(users, MarkUser{Rule: fmt.Sprintf("wg show %s fwmark %#x", name, mark), Bits: mark})
		}
	}
	return users, err
}

// wireGuardMark returns the mark of a device, 0 if it has none.
func wireGuardMark(name string) (mark uint32, err error) {
	answers, err := askWireGuard(wgGetDevice, unix.NLM_F_DUMP, nl.NewRtAttr(wgName, nl.ZeroTerminated(name)))
	for _, answer := range answers {
		attrs, unread := nl.ParseRouteAttr(answer[nl.SizeofGenlmsg:])
		err = errors.Join(err, unread)
		for _, a := range attrs {
			if a.Attr.Type == wgMark && len(a.Value) == 4 {
				mark = binary.NativeEndian.Uint32(a.Value)
			}
		}
	}
	return mark, err
}

func askWireGuard(command uint8, flags int, attrs ...*nl.RtAttr) ([][]byte, error) {
	family, err := netlink.GenlFamilyGet("wireguard")
	if err != nil {
		return nil, err
	}
	q := nl.NewNetlinkRequest(int(family.ID), flags)
	q.AddData(&nl.Genlmsg{Command: command, Version: wgVersion})
	for _, a := range attrs {
		q.AddData(a)
	}
	return q.Execute(unix.NETLINK_GENERIC, 0)
}
