// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane/device"
	"weir/internal/host/dump"
)

// Users of the mark beside netfilter and policy routing.

// filterMarks returns what filters of tc do with the mark.
func filterMarks(list []device.MarkingFilter) (users []MarkUser) {
	for _, f := range list {
		users = append(users, MarkUser{Rule: f.Text, Bits: f.Bits, Reads: f.Reads, Value: f.Value})
	}
	return users
}

// lookIPsecMarks reads the policies and states of IPsec. A host without it has none.
func lookIPsecMarks() (users []MarkUser, err error) {
	policies, err := dump.Whole(func() ([]netlink.XfrmPolicy, error) { return netlink.XfrmPolicyList(netlink.FAMILY_ALL) })
	if err != nil {
		return nil, absent(err)
	}
	for _, p := range policies {
		users = append(users, ipsecMark(fmt.Sprintf("ip xfrm policy %v %v", p.Dir, p.Dst), p.Mark, true)...)
	}
	states, err := dump.Whole(func() ([]netlink.XfrmState, error) { return netlink.XfrmStateList(netlink.FAMILY_ALL) })
	for _, s := range states {
		name := fmt.Sprintf("ip xfrm state %v", s.Dst)
		users = append(users, ipsecMark(name, s.Mark, true)...)
		users = append(users, ipsecMark(name+" output-mark", s.OutputMark, false)...)
	}
	return users, absent(err)
}

func ipsecMark(name string, m *netlink.XfrmMark, reads bool) []MarkUser {
	if m == nil || m.Mask == 0 && m.Value == 0 {
		return nil
	}
	bits := m.Mask | m.Value
	if m.Mask == 0 { // as the kernel takes an output-mark without a mask
		bits = allBits
	}
	return []MarkUser{{Rule: fmt.Sprintf("%s mark %#x/%#x", name, m.Value, m.Mask), Bits: bits, Reads: reads}}
}

// absent leaves out the error of a kernel without a part.
func absent(err error) error {
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
