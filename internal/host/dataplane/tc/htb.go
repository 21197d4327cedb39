// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/framing"
	"weir/internal/host/dataplane/device"
)

// HTB in netlink: numbers and messages, no decisions.

const (
	rootHandle = device.HandleMajor << 16 // 77e1:
	linkMinor  = 0xfffe                   // 77e1:fffe carries the link's capacity
	hostMinor  = 0xffff                   // class 0; minor 0 would be the qdisc itself

	// tickShift turns nanoseconds into the kernel's scheduling ticks (PSCHED_SHIFT).
	tickShift = 6

	linklayerEthernet = 1 // TC_LINKLAYER_ETHERNET: no rate tables needed
	linklayerATM      = 2 // TC_LINKLAYER_ATM
)

// classMinor is the minor number of a class's HTB class, and at the same time
// (but for the host) the major number of its leaf qdisc.
func classMinor(id plan.ClassID) uint32 {
	if id == 0 {
		return hostMinor
	}
	return uint32(id)
}

func classOfMinor(minor uint32) (id plan.ClassID, ok bool) {
	switch {
	case minor == hostMinor:
		return 0, true
	case minor > 0 && minor < plan.MaxClasses:
		return plan.ClassID(minor), true
	}
	return 0, false
}

func leafHandle(id plan.ClassID) uint32 {
	if id == 0 {
		return linkMinor << 16 // major ffff belongs to clsact
	}
	return uint32(id) << 16
}

// settings are all that HTB is told about a class, in its own units, so that
// they can be compared with what it answers.
type settings struct {
	Rate, Ceil      uint64 // bytes per second
	Buffer, Cbuffer uint32 // ticks
	Quantum         uint32 // bytes
	line
}

// line is what the line takes of a packet, as HTB is told.
type line struct {
	Overhead, Least uint16 // bytes
	Layer           uint8  // linklayerEthernet or linklayerATM
}

// lineOf is a framing on a device. Of PTM it has nothing: HTB knows no cells of 65 bytes for 64.
func lineOf(f framing.Framing, dev device.Device) line {
	overhead := f.Overhead
	switch {
	case !f.FromIP:
		overhead += dev.Tag
	case dev.Ethernet:
		overhead -= framing.Ethernet
	}
	l := line{Overhead: uint16(max(overhead, 0)), Least: uint16(f.Least), Layer: linklayerEthernet}
	if f.Cells == framing.ATM {
		l.Layer = linklayerATM
	}
	return l
}

// settingsOf sizes the buckets: what the class sends in burstTime, and at least
// two frames, because a timer that is late must not cost rate.
func settingsOf(g grant, f framing.Framing, dev device.Device) settings {
	rate, ceil := uint64(g.rate), uint64(g.ceil)
	if f.Cells == framing.PTM { // less of both instead of more of each packet
		rate, ceil = rate/65*64, ceil/65*64
	}
	s := settings{Rate: max(rate/8, 1), Ceil: max(ceil/8, 1), Quantum: g.quantum, line: lineOf(f, dev)}
	s.Buffer, s.Cbuffer = bucket(s.Rate), bucket(s.Ceil)
	return s
}

const burstTime = 4e6 // ns

// bucket is the burst at a rate in bytes per second, as time in ticks.
func bucket(rate uint64) uint32 {
	twoFrames := 2 * minQuantum * 1e9 / float64(rate)
	return uint32(min(max(burstTime, twoFrames), 60e9)) >> tickShift
}

// htbClass is one HTB class as the kernel shows it.
type htbClass struct {
	minor    uint32
	settings settings
	sent     uint64 // bytes
	packets  uint64
	waiting  uint32 // packets
	backlog  uint32 // bytes
}

func nested(typ int, attrs ...*nl.RtAttr) *nl.RtAttr {
	parent := nl.NewRtAttr(typ, nil)
	for _, attr := range attrs {
		parent.AddChild(attr)
	}
	return parent
}

func tcMsg(ifindex int, parent, handle uint32) *nl.TcMsg {
	return &nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(ifindex), Parent: parent, Handle: handle}
}

func kindAttr(kind string) *nl.RtAttr { return nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated(kind)) }

// addRoot makes HTB the root qdisc of a device.
func addRoot(c *device.Conn, ifindex int) error {
	glob := nl.TcHtbGlob{Version: 3, Rate2Quantum: 10, Defcls: hostMinor}
	_, err := c.Do(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK,
		tcMsg(ifindex, netlink.HANDLE_ROOT, rootHandle), kindAttr("htb"),
		nested(nl.TCA_OPTIONS, nl.NewRtAttr(nl.TCA_HTB_INIT, glob.Serialize())))
	return err
}

// setClass makes or changes an HTB class. Changing drops no packet.
func setClass(c *device.Conn, ifindex int, minor uint32, s settings) error {
	parent := uint32(rootHandle | linkMinor)
	if minor == linkMinor {
		parent = rootHandle
	}
	rate := nl.TcRateSpec{Linklayer: s.Layer, Overhead: s.Overhead, Mpu: s.Least, Rate: uint32(min(s.Rate, 1<<32-1))}
	ceil := rate
	ceil.Rate = uint32(min(s.Ceil, 1<<32-1))
	parms := nl.TcHtbCopt{Rate: rate, Ceil: ceil, Buffer: s.Buffer, Cbuffer: s.Cbuffer, Quantum: s.Quantum}
	options := nested(nl.TCA_OPTIONS, nl.NewRtAttr(nl.TCA_HTB_PARMS, parms.Serialize()))
	if s.Rate >= 1<<32 {
		options.AddRtAttr(nl.TCA_HTB_RATE64, nl.Uint64Attr(s.Rate))
	}
	if s.Ceil >= 1<<32 {
		options.AddRtAttr(nl.TCA_HTB_CEIL64, nl.Uint64Attr(s.Ceil))
	}
	_, err := c.Do(unix.RTM_NEWTCLASS, unix.NLM_F_CREATE|unix.NLM_F_ACK,
		tcMsg(ifindex, parent, rootHandle|minor), kindAttr("htb"), options)
	return err
}

// deleteClass removes an HTB class, its leaf qdisc and what waits there.
func deleteClass(c *device.Conn, ifindex int, minor uint32) error {
	_, err := c.Do(unix.RTM_DELTCLASS, unix.NLM_F_ACK, tcMsg(ifindex, rootHandle|linkMinor, rootHandle|minor))
	return err
}

// listClasses reads all HTB classes of a device below Weir's root.
func listClasses(c *device.Conn, ifindex int) (map[uint32]htbClass, error) {
	bodies, err := c.Do(unix.RTM_GETTCLASS, unix.NLM_F_DUMP, tcMsg(ifindex, 0, 0))
	if err != nil {
		return nil, err
	}
	list := make(map[uint32]htbClass, len(bodies))
	for _, body := range bodies {
		handle := nl.DeserializeTcMsg(body).Handle
		if handle>>16 != device.HandleMajor {
			continue // inner classes of a leaf
		}
		class, err := parseClass(body)
		if err != nil {
			return nil, fmt.Errorf("class %x:%x: %w", handle>>16, handle&0xffff, err)
		}
		list[class.minor] = class
	}
	return list, nil
}

func parseClass(body []byte) (htbClass, error) {
	class := htbClass{minor: nl.DeserializeTcMsg(body).Handle & 0xffff}
	err := device.EachAttr(body[nl.SizeofTcMsg:], func(typ uint16, value []byte) error {
		switch typ {
		case nl.TCA_KIND:
			if kind := strings.TrimRight(string(value), "\x00"); kind != "htb" {
				return fmt.Errorf("is of kind %s", kind)
			}
		case nl.TCA_OPTIONS:
			return device.EachAttr(value, class.settings.parse)
		case nl.TCA_STATS2:
			stats, err := parseStats(value)
			class.sent, class.packets = stats.sent, stats.packets
			class.waiting, class.backlog = stats.waiting, stats.backlog
			return err
		}
		return nil
	})
	return class, err
}

func (s *settings) parse(typ uint16, value []byte) error {
	switch {
	case typ == nl.TCA_HTB_PARMS && len(value) >= nl.SizeofTcHtbCopt:
		parms := nl.DeserializeTcHtbCopt(value)
		s.line = line{Overhead: parms.Rate.Overhead, Least: parms.Rate.Mpu, Layer: parms.Rate.Linklayer}
		s.Quantum = parms.Quantum
		s.Buffer, s.Cbuffer = parms.Buffer, parms.Cbuffer
		// Rates of 2^32 and more come in attributes of their own, in any order.
		s.Rate, s.Ceil = max(s.Rate, uint64(parms.Rate.Rate)), max(s.Ceil, uint64(parms.Ceil.Rate))
	case typ == nl.TCA_HTB_RATE64 && len(value) >= 8:
		s.Rate = nl.NativeEndian().Uint64(value)
	case typ == nl.TCA_HTB_CEIL64 && len(value) >= 8:
		s.Ceil = nl.NativeEndian().Uint64(value)
	}
	return nil
}

// statistics are what a qdisc or class has counted since it was made.
type statistics struct {
	sent, packets    uint64
	waiting, backlog uint32
	drops            uint32
	overlimit        uint32 // of fq_codel only: drop_overlimit of its statistics,
	marked           uint32 // and ecn_mark and ce_mark together
}

func parseStats(raw []byte) (s statistics, err error) {
	native := nl.NativeEndian()
	err = device.EachAttr(raw, func(typ uint16, value []byte) error {
		switch {
		case typ == nl.TCA_STATS_BASIC && len(value) >= 12:
			s.sent = native.Uint64(value)
			s.packets = max(s.packets, uint64(native.Uint32(value[8:])))
		case typ == nl.TCA_STATS_PKT64 && len(value) >= 8:
			s.packets = native.Uint64(value)
		case typ == nl.TCA_STATS_APP && len(value) >= 12:
			s.overlimit = native.Uint32(value[8:]) // struct tc_fq_codel_xstats
			if len(value) >= 36 {
				s.marked = native.Uint32(value[12:]) + native.Uint32(value[32:])
			}
		case typ == nl.TCA_STATS_QUEUE && len(value) >= 12:
			s.waiting, s.backlog, s.drops = native.Uint32(value), native.Uint32(value[4:]), native.Uint32(value[8:])
		}
		return nil
	})
	return s, err
}

// bits is a rate of HTB in the policy's unit.
func bits(bytesPerSecond uint64) policy.Rate { return policy.Rate(bytesPerSecond * 8) }
