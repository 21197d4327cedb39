// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"

	"github.com/vishvananda/netlink"

	"weir/internal/host/dump"
)

const wholeMark = 0xffffffff

// classful are the qdiscs, beside clsact and ingress, at which filters hang.
var classful = []string{"htb", "hfsc", "prio", "drr", "qfq", "cbq", "fq_codel", "sfq", "multiq"}

// MarkingFilter is a filter of tc, or an action of one, that compares bits of the mark, or writes
// them.
type MarkingFilter struct {
	Text  string // names the filter
	Bits  uint32
	Reads bool   // it compares them
	Value uint32 // with this value
}

// MarkingFilters lists those of all devices.
func MarkingFilters() (users []MarkingFilter, err error) {
	qdiscs, err := dump.Whole(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(nil) })
	for _, q := range qdiscs {
		for _, parent := range parentsOf(q) {
			at := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: q.Attrs().LinkIndex}}
			filters, none := netlink.FilterList(at, parent)
			if none != nil {
				continue // the device, or the qdisc, is gone
			}
			for _, f := range filters {
				users = append(users, markingParts(f)...)
			}
		}
	}
	return users, err
}

// parentsOf returns where filters hang at a qdisc.
func parentsOf(q netlink.Qdisc) []uint32 {
	switch {
	case q.Type() == "clsact":
		return []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS}
	case q.Type() == "ingress":
		return []uint32{netlink.HANDLE_MIN_INGRESS}
	case q.Attrs().Handle != 0 && slices.Contains(classful, q.Type()):
		return []uint32{q.Attrs().Handle}
	}
	return nil
}

// markingParts returns what a filter and its actions do with the mark.
func markingParts(f netlink.Filter) (users []MarkingFilter) {
	use := MarkingFilter{Text: "tc filter " + filterText(f)}
	var actions []netlink.Action
	switch f := f.(type) {
	case *netlink.FwFilter:
		actions = f.Actions
		if use.Bits, use.Reads = f.Mask, true; f.Mask == 0 {
			use.Bits = wholeMark
		}
		use.Value = f.Handle & use.Bits
		users = append(users, use)
	case *netlink.U32:
		actions = f.Actions
	case *netlink.Flower:
		actions = f.Actions
	case *netlink.MatchAll:
		actions = f.Actions
	}
	for _, action := range actions {
		if use.Bits, use.Reads, use.Value = actionWrites(action), false, 0; use.Bits != 0 {
			users = append(users, use)
		}
	}
	return users
}

// actionWrites returns the bits of the mark that an action of tc writes.
func actionWrites(action netlink.Action) uint32 {
	switch a := action.(type) {
	case *netlink.ConnmarkAction:
		return wholeMark
	case *netlink.SkbEditAction:
		switch {
		case a.Mark == nil:
			return 0
		case a.Mask != nil:
			return *a.Mask
		}
		return wholeMark
	}
	return 0
}
