// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane"
)

// Filter is a cls_bpf filter: a BPF program that classifies packets at a qdisc.
type Filter struct {
	Ifindex  int
	Parent   uint32 // handle of the qdisc, or ClsactIngress
	Priority uint16
	Handle   uint32
	Name     string // for people: what "tc filter show" prints
	Direct   bool   // the program returns a verdict; if not, a class id
	ProgFD   int    // to set
	ProgID   uint32 // as read
	// Redirect is the index of the device that what the program takes is sent by
	// instead; 0 = there is no such action. Not with Direct.
	Redirect int
}

// ClsactIngress is the parent of filters on what comes in by a device.
const ClsactIngress = netlink.HANDLE_MIN_INGRESS

// ClsactEgress is the parent of filters on what goes out by a device.
const ClsactEgress = netlink.HANDLE_MIN_EGRESS

// Numbers of the kernel's linux/pkt_cls.h that the netlink library keeps private.
const (
	tcaBPFAct   = 1
	tcaBPFFD    = 6
	tcaBPFName  = 7
	tcaBPFFlags = 8
	tcaBPFID    = 11

	tcaBPFFlagActDirect = 1
)

func (f Filter) msg() *nl.TcMsg {
	return &nl.TcMsg{
		Family: unix.AF_UNSPEC, Ifindex: int32(f.Ifindex), Parent: f.Parent, Handle: f.Handle,
		Info: uint32(f.Priority)<<16 | uint32(htons(unix.ETH_P_ALL)),
	}
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// SetFilter adds the filter or, where one with the same priority and handle is
// there, gives it the new program in one step: every packet is seen by the old
// one or by the new one.
func (c *Conn) SetFilter(f Filter) error {
	options := nl.NewRtAttr(nl.TCA_OPTIONS, nil)
	options.AddRtAttr(tcaBPFFD, nl.Uint32Attr(uint32(f.ProgFD)))
	options.AddRtAttr(tcaBPFName, nl.ZeroTerminated(f.Name))
	if f.Direct {
		options.AddRtAttr(tcaBPFFlags, nl.Uint32Attr(tcaBPFFlagActDirect))
	}
	if f.Redirect != 0 {
		action := netlink.NewMirredAction(f.Redirect)
		if err := netlink.EncodeActions(options.AddRtAttr(tcaBPFAct, nil), []netlink.Action{action}); err != nil {
			return fmt.Errorf("set filter %q: %w", f.Name, err)
		}
	}
	_, err := c.Do(unix.RTM_NEWTFILTER, unix.NLM_F_CREATE|unix.NLM_F_ACK, f.msg(),
		nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("bpf")), options)
	return Explain(fmt.Sprintf("set filter %q", f.Name), err)
}

// DeleteFilter removes the filter with f's parent, priority and handle. It is
// no error if there is none.
func (c *Conn) DeleteFilter(f Filter) error {
	_, err := c.Do(unix.RTM_DELTFILTER, unix.NLM_F_ACK, f.msg(), nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("bpf")))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return Explain("delete a filter", err)
}

// Filters lists the cls_bpf filters at a parent, and says how many filters of
// any kind there are.
func (c *Conn) Filters(ifindex int, parent uint32) (list []Filter, all int, err error) {
	bodies, err := c.Do(unix.RTM_GETTFILTER, unix.NLM_F_DUMP,
		&nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(ifindex), Parent: parent})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, 0, nil // no such parent, so no filters
	}
	if err != nil {
		return nil, 0, Explain(fmt.Sprintf("list the filters of device %d", ifindex), err)
	}
	for _, body := range bodies {
		f, kind, err := parseFilter(body)
		if err != nil {
			return nil, 0, err
		}
		if f.Handle == 0 {
			continue // each priority is dumped once more as a header without a handle
		}
		all++
		if kind == "bpf" {
			list = append(list, f)
		}
	}
	return list, all, nil
}

func parseFilter(body []byte) (f Filter, kind string, err error) {
	if len(body) < nl.SizeofTcMsg {
		return f, "", fmt.Errorf("filter message of %d bytes: too short", len(body))
	}
	msg := nl.DeserializeTcMsg(body)
	f = Filter{
		Ifindex: int(msg.Ifindex), Parent: msg.Parent, Handle: msg.Handle,
		Priority: uint16(msg.Info >> 16),
	}
	err = EachAttr(body[nl.SizeofTcMsg:], func(typ uint16, value []byte) error {
		switch typ {
		case nl.TCA_KIND:
			kind = strings.TrimRight(string(value), "\x00")
		case nl.TCA_OPTIONS:
			return EachAttr(value, f.parseOption)
		}
		return nil
	})
	if err != nil {
		return f, "", fmt.Errorf("parse filter message: %w", err)
	}
	return f, kind, nil
}

func (f *Filter) parseOption(typ uint16, value []byte) error {
	switch {
	case typ == tcaBPFName:
		f.Name = strings.TrimRight(string(value), "\x00")
	case typ == tcaBPFID && len(value) >= 4:
		f.ProgID = nl.NativeEndian().Uint32(value)
	case typ == tcaBPFFlags && len(value) >= 4:
		f.Direct = nl.NativeEndian().Uint32(value)&tcaBPFFlagActDirect != 0
	}
	return nil
}

// AddClsact gives the device the place where filters at a parent hang; made is false if it was
// there. Where another program has added an ingress qdisc, there is none for what leaves: the
// kernel would put such a filter at the ingress.
func (c *Conn) AddClsact(ifindex int, parent uint32) (made bool, err error) {
	_, err = c.Do(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, clsactMsg(ifindex),
		nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("clsact")))
	if !errors.Is(err, unix.EEXIST) {
		return err == nil, Explain(fmt.Sprintf("add clsact to device %d", ifindex), err)
	}
	if parent != ClsactEgress {
		return false, nil
	}
	with, err := c.Clsacts()
	if err != nil || slices.Contains(with, ifindex) {
		return false, err
	}
	return false, fmt.Errorf("device %d: %w: its ingress qdisc leaves no room for a filter on what it sends; remove it (tc qdisc del dev DEVICE ingress), or use clsact in its place", ifindex, dataplane.ErrForeignQdisc)
}

// DeleteClsact removes clsact from a device if no filter hangs there.
func (c *Conn) DeleteClsact(ifindex int) error {
	for _, parent := range []uint32{ClsactIngress, ClsactEgress} {
		if _, all, err := c.Filters(ifindex, parent); err != nil || all > 0 {
			return err
		}
	}
	_, err := c.Do(unix.RTM_DELQDISC, unix.NLM_F_ACK, clsactMsg(ifindex))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return Explain(fmt.Sprintf("remove clsact from device %d", ifindex), err)
}

func clsactMsg(ifindex int) *nl.TcMsg {
	return &nl.TcMsg{
		Family: unix.AF_UNSPEC, Ifindex: int32(ifindex),
		Parent: netlink.HANDLE_CLSACT, Handle: netlink.HANDLE_CLSACT & 0xffff0000,
	}
}

// Clsacts lists the devices that have clsact.
func (c *Conn) Clsacts() ([]int, error) {
	bodies, err := c.Do(unix.RTM_GETQDISC, unix.NLM_F_DUMP, &nl.TcMsg{Family: unix.AF_UNSPEC})
	if err != nil {
		return nil, Explain("list the qdiscs", err)
	}
	var list []int
	for _, body := range bodies {
		q, err := parseQdisc(body)
		if err != nil {
			return nil, err
		}
		if q.Kind == "clsact" {
			list = append(list, int(nl.DeserializeTcMsg(body).Ifindex))
		}
	}
	return list, nil
}
