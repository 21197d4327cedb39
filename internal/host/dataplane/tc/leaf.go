// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"cmp"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane/device"
)

// leafKinds are the queues below a class, best first: fq_codel keeps flows apart
// and queues short, sfq keeps flows apart, pfifo does neither.
var leafKinds = []string{"fq_codel", "sfq", "pfifo"}

// changeable says whether a leaf can be given another limit. sfq cannot: it would
// have to be made anew, and what waits in it would be lost.
func changeable(kind string) bool { return kind != "sfq" }

const (
	// leafTime is how long a full pfifo takes to drain at the link's capacity.
	leafTime       = 50e-3 // seconds
	minLeafPackets = 64
	maxLeafPackets = 1000
	fqCodelPackets = 10240 // fq_codel's own default; CoDel keeps it far below

	// Numbers of linux/pkt_sched.h that the netlink library keeps private.
	tcaFQCodelLimit       = 2
	tcaFQCodelCEThreshold = 7
	sizeofSfqQopt         = 20 // struct tc_sfq_qopt
)

// leafPackets is how many packets may wait in a class. A limit in bytes is held
// as a number of full frames: none of the leaf qdiscs counts both.
func leafPackets(kind string, capacity policy.Rate, limit plan.Limit) uint32 {
	packets := uint64(limit.Packets)
	if limit.Bytes > 0 {
		frames := max(limit.Bytes/minQuantum, 1)
		packets = min(cmp.Or(packets, frames), frames)
	}
	if packets > 0 {
		return uint32(min(packets, 1<<31))
	}
	if kind == "fq_codel" {
		return fqCodelPackets
	}
	drained := float64(capacity) * leafTime / 8 / minQuantum
	return uint32(min(max(drained, minLeafPackets), maxLeafPackets))
}

// noCEThreshold is fq_codel's, in microseconds, where no delay is: a signed number of its
// 1,024 ns, which cannot be reached.
const noCEThreshold = 1<<31 - 1

// ceThreshold is the delay in microseconds above which fq_codel marks each packet that can be.
func ceThreshold(class plan.Class) uint32 {
	if class.AQM.CEThreshold == 0 {
		return noCEThreshold
	}
	return uint32(class.AQM.CEThreshold.Microseconds())
}

// setLeaf makes or changes the leaf qdisc of a class; ce is fq_codel's ce_threshold.
func setLeaf(c *device.Conn, ifindex int, id plan.ClassID, kind string, packets, ce uint32) error {
	attrs := []*nl.RtAttr{kindAttr(kind)}
	limit := nl.Uint32Attr(packets)
	switch kind {
	case "pfifo": // struct tc_fifo_qopt
		attrs = append(attrs, nl.NewRtAttr(nl.TCA_OPTIONS, limit))
	case "sfq": // struct tc_sfq_qopt: quantum, perturb_period, limit, divisor, flows
		qopt := make([]byte, sizeofSfqQopt)
		nl.NativeEndian().PutUint32(qopt[4:], 10)
		copy(qopt[8:], limit)
		attrs = append(attrs, nl.NewRtAttr(nl.TCA_OPTIONS, qopt))
	case "fq_codel":
		options := []*nl.RtAttr{nl.NewRtAttr(tcaFQCodelLimit, limit)}
		if ce != 0 {
			options = append(options, nl.NewRtAttr(tcaFQCodelCEThreshold, nl.Uint32Attr(ce)))
		}
		attrs = append(attrs, nested(nl.TCA_OPTIONS, options...))
	}
	_, err := c.Do(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK,
		tcMsg(ifindex, rootHandle|classMinor(id), leafHandle(id)), attrs...)
	return err
}

// leaf is a leaf qdisc as the kernel shows it.
type leaf struct {
	kind    string
	packets uint32 // limit
	ce      uint32 // fq_codel: ce_threshold in microseconds, 0 = none
	marked  uint32 // fq_codel: packets
	drops   uint32
	full    uint32 // fq_codel: those of the drops that were for want of room
}

// listLeaves reads the leaf qdiscs of a device's classes.
func listLeaves(c *device.Conn, ifindex int) (map[plan.ClassID]leaf, error) {
	bodies, err := c.Do(unix.RTM_GETQDISC, unix.NLM_F_DUMP, tcMsg(ifindex, 0, 0))
	if err != nil {
		return nil, err
	}
	list := make(map[plan.ClassID]leaf)
	for _, body := range bodies {
		msg := nl.DeserializeTcMsg(body)
		if int(msg.Ifindex) != ifindex || msg.Parent>>16 != device.HandleMajor {
			continue
		}
		id, ok := classOfMinor(msg.Parent & 0xffff)
		if !ok {
			continue
		}
		if list[id], err = parseLeaf(body); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func parseLeaf(body []byte) (l leaf, err error) {
	var options []byte
	err = device.EachAttr(body[nl.SizeofTcMsg:], func(typ uint16, value []byte) error {
		switch typ {
		case nl.TCA_KIND:
			l.kind = strings.TrimRight(string(value), "\x00")
		case nl.TCA_OPTIONS:
			options = value
		case nl.TCA_STATS2:
			stats, err := parseStats(value)
			l.drops, l.full, l.marked = stats.drops, stats.overlimit, stats.marked
			return err
		}
		return nil
	})
	if err != nil {
		return l, err
	}
	native := nl.NativeEndian()
	switch {
	case l.kind == "pfifo" && len(options) >= 4:
		l.packets = native.Uint32(options)
	case l.kind == "sfq" && len(options) >= sizeofSfqQopt:
		l.packets = native.Uint32(options[8:])
	case l.kind == "fq_codel":
		err = device.EachAttr(options, func(typ uint16, value []byte) error {
			switch {
			case typ == tcaFQCodelLimit && len(value) >= 4:
				l.packets = native.Uint32(value)
			case typ == tcaFQCodelCEThreshold && len(value) >= 4:
				l.ce = native.Uint32(value)
			}
			return nil
		})
	}
	return l, err
}
