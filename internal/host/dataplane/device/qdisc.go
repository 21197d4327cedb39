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
)

// HandleMajor is the major number of the handles of Weir's qdiscs ("77e1:"): by
// it an agent that starts recognises what an earlier one left.
const HandleMajor = 0x77e1

// kindPrefix begins the names of Weir's BPF qdiscs (weir0, weir1, ...).
const kindPrefix = "weir"

// Qdisc is a root qdisc, with as much as is needed to make it again.
type Qdisc struct {
	Kind    string
	Handle  uint32 // major in the upper 16 bits; 0 = made by the kernel
	Options []byte // raw content of TCA_OPTIONS
	Stab    bool   // it has a size table, which the kernel does not dump in full
}

// Default says that the kernel made the qdisc by itself. What a person or a
// tool makes has a handle: where none is given, the kernel allots one.
func (q Qdisc) Default() bool { return q.Handle == 0 }

// Ours says that Weir made the qdisc.
func (q Qdisc) Ours() bool {
	return q.Handle>>16 == HandleMajor || (q.Handle != 0 && strings.HasPrefix(q.Kind, kindPrefix))
}

// Foreign says that the qdisc was set on purpose, and not by Weir.
func (q Qdisc) Foreign() bool { return !q.Default() && !q.Ours() }

// switchKinds are what Open vSwitch sets by itself (QoS types linux-htb and so on), all as 1:.
// People give netem that handle, too.
var switchKinds = []string{"htb", "hfsc", "sfq", "codel", "fq_codel"}

// OfSwitch says that Open vSwitch may have made the qdisc.
func (q Qdisc) OfSwitch() bool {
	return q.Handle == 1<<16 && slices.Contains(switchKinds, q.Kind)
}

// String is the qdisc as tc prints it: "htb 8001:".
func (q Qdisc) String() string {
	return fmt.Sprintf("%s %x:", q.Kind, q.Handle>>16)
}

// Root reads the root qdisc of dev. A device that is down has none; it is
// reported as "noop" with handle 0.
func (c *Conn) Root(dev Device) (Qdisc, error) {
	msg := &nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(dev.Index), Parent: netlink.HANDLE_ROOT}
	// NLM_F_ECHO: without it the answer goes to listeners only, not to who asked.
	// NLM_F_ACK: for a qdisc that it does not show, the kernel answers with
	// nothing at all, and without the acknowledgement the wait would not end.
	answers, err := c.Do(unix.RTM_GETQDISC, unix.NLM_F_ACK|unix.NLM_F_ECHO, msg)
	if errors.Is(err, unix.ENOENT) || (err == nil && len(answers) == 0) {
		return Qdisc{Kind: "noop"}, nil
	}
	if err != nil {
		return Qdisc{}, Explain("read the root qdisc of "+dev.Name, err)
	}
	return parseQdisc(answers[0])
}

func parseQdisc(body []byte) (Qdisc, error) {
	if len(body) < nl.SizeofTcMsg {
		return Qdisc{}, fmt.Errorf("qdisc message of %d bytes: too short", len(body))
	}
	q := Qdisc{Handle: nl.DeserializeTcMsg(body).Handle}
	err := EachAttr(body[nl.SizeofTcMsg:], func(typ uint16, value []byte) error {
		switch typ {
		case nl.TCA_KIND:
			q.Kind = strings.TrimRight(string(value), "\x00")
		case nl.TCA_OPTIONS:
			q.Options = append([]byte(nil), value...)
		case nl.TCA_STAB:
			q.Stab = true
		}
		return nil
	})
	if err != nil {
		return Qdisc{}, fmt.Errorf("parse qdisc message: %w", err)
	}
	return q, nil
}

// SetRoot makes q the root qdisc of dev in place of whatever is there.
func (c *Conn) SetRoot(dev Device, q Qdisc) error {
	msg := &nl.TcMsg{
		Family: unix.AF_UNSPEC, Ifindex: int32(dev.Index),
		Parent: netlink.HANDLE_ROOT, Handle: q.Handle,
	}
	attrs := []*nl.RtAttr{nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated(q.Kind))}
	if len(q.Options) > 0 {
		attrs = append(attrs, nl.NewRtAttr(nl.TCA_OPTIONS, accepted(q)))
	}
	_, err := c.Do(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, msg, attrs...)
	return err
}

// accepted are a qdisc's options as the kernel takes them. It takes what it dumps,
// but for HTB, which dumps its version as 0x30011 and wants to read 3.
func accepted(q Qdisc) []byte {
	options := append([]byte(nil), q.Options...)
	if q.Kind != "htb" {
		return options
	}
	// Options that cannot be parsed are the kernel's to refuse.
	_ = EachAttr(options, func(typ uint16, value []byte) error {
		if typ == nl.TCA_HTB_INIT && len(value) >= nl.SizeofTcHtbGlob {
			nl.NativeEndian().PutUint32(value, 3) // value is a part of options
		}
		return nil
	})
	return options
}

// DeleteRoot deletes the root qdisc of dev; the kernel puts its default there.
func (c *Conn) DeleteRoot(dev Device) error {
	msg := &nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(dev.Index), Parent: netlink.HANDLE_ROOT}
	if _, err := c.Do(unix.RTM_DELQDISC, unix.NLM_F_ACK, msg); err != nil {
		return Explain("delete the root qdisc of "+dev.Name, err)
	}
	return nil
}

// SteersOthers says whether another device of the namespace has a root qdisc of
// Weir's.
func (c *Conn) SteersOthers(dev Device) (bool, error) {
	all, err := c.Steered()
	return slices.ContainsFunc(all, func(index int) bool { return index != dev.Index }), err
}

// Steered lists the indices of the devices of the namespace that have a root qdisc of Weir's.
func (c *Conn) Steered() (list []int, err error) {
	bodies, err := c.Do(unix.RTM_GETQDISC, unix.NLM_F_DUMP, &nl.TcMsg{Family: unix.AF_UNSPEC})
	if err != nil {
		return nil, Explain("list the qdiscs", err)
	}
	for _, body := range bodies {
		q, err := parseQdisc(body)
		if err != nil {
			return nil, err
		}
		msg := nl.DeserializeTcMsg(body)
		if q.Ours() && msg.Parent == netlink.HANDLE_ROOT {
			list = append(list, int(msg.Ifindex))
		}
	}
	return list, nil
}

// leaves returns the number of qdiscs that stand directly below the root qdisc mq, one for
// each transmit queue, and the kind of the first; 0 below another root qdisc.
func (c *Conn) leaves(dev Device, root Qdisc) (kind string, queues int, err error) {
	if root.Kind != "mq" {
		return "", 0, nil
	}
	bodies, err := c.Do(unix.RTM_GETQDISC, unix.NLM_F_DUMP, &nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(dev.Index)})
	if err != nil {
		return "", 0, Explain("list what hangs below the root qdisc of "+dev.Name, err)
	}
	for _, body := range bodies {
		q, err := parseQdisc(body)
		if err != nil {
			return "", 0, err
		}
		msg := nl.DeserializeTcMsg(body)
		if int(msg.Ifindex) != dev.Index || msg.Parent>>16 != root.Handle>>16 || msg.Parent&0xffff == 0 {
			continue
		}
		if queues++; kind == "" {
			kind = q.Kind
		}
	}
	return kind, queues, nil
}

// belongings counts what hangs below the root qdisc and would be lost with it.
type belongings struct{ Classes, Qdiscs, Filters int }

func (b belongings) empty() bool { return b == belongings{} }

func (b belongings) String() string {
	return fmt.Sprintf("%d classes, %d inner qdiscs, %d filters", b.Classes, b.Qdiscs, b.Filters)
}

// realClasses are the kinds whose classes a person makes. Others (fq_codel,
// prio, mq) only show their inner queues as classes.
var realClasses = map[string]bool{"htb": true, "hfsc": true, "drr": true, "qfq": true, "cbq": true}

func (c *Conn) below(dev Device, root Qdisc) (belongings, error) {
	var b belongings
	msg := &nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(dev.Index)}
	if realClasses[root.Kind] {
		classes, err := c.Do(unix.RTM_GETTCLASS, unix.NLM_F_DUMP, msg)
		if err != nil {
			return b, err
		}
		b.Classes = len(classes)
	}
	qdiscs, err := c.Do(unix.RTM_GETQDISC, unix.NLM_F_DUMP, msg)
	if err != nil {
		return b, err
	}
	for _, body := range qdiscs {
		q := nl.DeserializeTcMsg(body)
		inner := q.Parent != netlink.HANDLE_ROOT && q.Parent != netlink.HANDLE_CLSACT && q.Handle != 0
		if int(q.Ifindex) == dev.Index && inner {
			b.Qdiscs++
		}
	}
	_, b.Filters, err = c.Filters(dev.Index, root.Handle)
	return b, err
}
