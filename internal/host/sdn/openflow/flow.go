// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Flow is one entry of a flow table.
type Flow struct {
	Table    uint8
	Priority uint16
	Cookie   uint64
	Match    Match // canonical where it was read
	Actions  []Action
	// Other are instructions other than a list of actions to apply, as they are on the
	// wire. Weir has none.
	Other []byte
	// Counters, where the flow was read.
	Packets, Bytes uint64
}

// Key tells entries of a flow table apart: the switch has one for each.
func (f Flow) Key() string {
	return string(binary.BigEndian.AppendUint16([]byte{f.Table}, f.Priority)) + string(f.Match.Canonical().encode(nil))
}

// Same reports whether two flows do the same with the same packets, whatever
// they counted.
func (f Flow) Same(g Flow) bool {
	return f.Key() == g.Key() && f.Cookie == g.Cookie && bytes.Equal(f.Other, g.Other) &&
		slices.EqualFunc(f.Actions, g.Actions, func(a, b Action) bool { return bytes.Equal(a, b) })
}

// ActionText returns the flow's actions in ovs-ofctl's words.
func (f Flow) ActionText() string {
	var words []string
	for _, a := range f.Actions {
		words = append(words, a.String())
	}
	if len(f.Other) > 0 {
		words = append(words, "instructions 0x"+hex.EncodeToString(f.Other))
	}
	if len(words) == 0 {
		return "drop"
	}
	return strings.Join(words, ",")
}

// Action is one action as it is on the wire (7.2.5).
type Action []byte

// Kinds of actions.
const (
	actionOutput       = 0
	actionSetQueue     = 21
	actionSetField     = 25
	actionExperimenter = 0xffff
)

const (
	niciraVendor = 0x00002320
	nxResubmit   = 14
)

// Output sends the packet out of a port.
func Output(port uint32) Action {
	a := binary.BigEndian.AppendUint32([]byte{0, actionOutput, 0, 16}, port)
	return append(a, make([]byte, 8)...)
}

// SetQueue chooses the queue of its port that the packet joins.
func SetQueue(queue uint32) Action {
	return binary.BigEndian.AppendUint32([]byte{0, actionSetQueue, 0, 8}, queue)
}

// SetReg writes a whole register.
func SetReg(n, v uint32) Action {
	a := pad(Reg(n, v).encode([]byte{0, actionSetField, 0, 0}), 0)
	a[3] = byte(len(a))
	return a
}

// Resubmit looks the packet up in a table again and does what it finds there.
func Resubmit(table uint8) Action {
	a := binary.BigEndian.AppendUint32([]byte{0xff, 0xff, 0, 16}, niciraVendor)
	a = binary.BigEndian.AppendUint16(a, nxResubmit)
	a = binary.BigEndian.AppendUint16(a, nxInPort)
	return append(a, table, 0, 0, 0)
}

const nxInPort = 0xfff8 // OFPP_IN_PORT of OpenFlow 1.0: the packet's own

// String returns the action in ovs-ofctl's words.
func (a Action) String() string {
	if len(a) < 8 {
		return "0x" + hex.EncodeToString(a)
	}
	value := binary.BigEndian.Uint32(a[4:])
	switch kind := binary.BigEndian.Uint16(a); {
	case kind == actionOutput:
		if name, ok := reservedPorts[value]; ok {
			return name
		}
		return fmt.Sprintf("output:%d", value)
	case kind == actionSetQueue:
		return fmt.Sprintf("set_queue:%d", value)
	case kind == actionSetField:
		if f, _, err := decodeField(a[4:]); err == nil {
			name, v, _ := strings.Cut(f.String(), "=")
			return fmt.Sprintf("set_field:%s->%s", v, name)
		}
	case kind == actionExperimenter && len(a) == 16 && value == niciraVendor && binary.BigEndian.Uint16(a[8:]) == nxResubmit:
		return fmt.Sprintf("resubmit(,%d)", a[12])
	}
	return "0x" + hex.EncodeToString(a)
}

var reservedPorts = map[uint32]string{
	0xfffffff8: "IN_PORT", 0xfffffffa: "NORMAL", 0xfffffffb: "FLOOD", 0xfffffffc: "ALL",
	0xfffffffd: "CONTROLLER", 0xfffffffe: "LOCAL",
}

// FlowModCommand is the kind of change that a FlowMod makes.
type FlowModCommand uint8

// The commands (7.3.4.1).
const (
	Add          FlowModCommand = 0 // replaces a flow with the same key, and its counters
	DeleteStrict FlowModCommand = 4 // the flow with this key and cookie
)

// FlowMod is one change of a flow table.
type FlowMod struct {
	Command FlowModCommand
	Flow    Flow
}

const (
	anyPort  = 0xffffffff
	anyTable = 0xff
	noBuffer = 0xffffffff
)

// encode returns the body of ofp_flow_mod (7.3.4.1).
func (m FlowMod) encode() []byte {
	f := m.Flow
	var mask uint64
	if m.Command == DeleteStrict {
		mask = ^uint64(0)
	}
	b := binary.BigEndian.AppendUint64(nil, f.Cookie)
	b = binary.BigEndian.AppendUint64(b, mask)
	b = append(b, f.Table, byte(m.Command), 0, 0, 0, 0) // no time-outs
	b = binary.BigEndian.AppendUint16(b, f.Priority)
	b = binary.BigEndian.AppendUint32(b, noBuffer)
	b = binary.BigEndian.AppendUint32(b, anyPort)
	b = binary.BigEndian.AppendUint32(b, anyPort) // any group
	b = append(b, 0, 0, 0, 0)                     // no flags, padding
	b = f.Match.Canonical().encode(b)
	if m.Command == DeleteStrict {
		return b
	}
	if len(f.Actions) > 0 {
		actions := slices.Concat(f.Actions...)
		b = append(b, 0, applyActions)
		b = binary.BigEndian.AppendUint16(b, uint16(8+len(actions)))
		b = append(b, 0, 0, 0, 0)
		b = append(b, actions...)
	}
	return append(b, f.Other...)
}

const applyActions = 4 // OFPIT_APPLY_ACTIONS

// decodeFlows reads the entries of a flow statistics reply (7.3.5.2).
func decodeFlows(b []byte) ([]Flow, error) {
	const head = 48
	var flows []Flow
	parts := 0
	for len(b) > 0 {
		if len(b) < head {
			return nil, errShort
		}
		length := int(binary.BigEndian.Uint16(b))
		if length < head || length > len(b) {
			return nil, fmt.Errorf("flow of %d bytes in %d", length, len(b))
		}
		f := Flow{
			Table:    b[2],
			Priority: binary.BigEndian.Uint16(b[12:]),
			Cookie:   binary.BigEndian.Uint64(b[24:]),
			Packets:  binary.BigEndian.Uint64(b[32:]),
			Bytes:    binary.BigEndian.Uint64(b[40:]),
		}
		m, rest, err := decodeMatch(b[head:length])
		if err != nil {
			return nil, err
		}
		f.Match = m
		if f.Actions, f.Other, err = decodeInstructions(rest); err != nil {
			return nil, err
		}
		if parts += len(f.Match) + len(f.Actions); parts > maxParts {
			return nil, fmt.Errorf("flows of more than %d fields and actions", maxParts)
		}
		flows, b = append(flows, f), b[length:]
	}
	return flows, nil
}

func decodeInstructions(b []byte) (actions []Action, other []byte, err error) {
	for len(b) > 0 {
		if len(b) < 8 {
			return nil, nil, errShort
		}
		kind, length := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[2:]))
		if length < 8 || length > len(b) {
			return nil, nil, fmt.Errorf("instruction of %d bytes in %d", length, len(b))
		}
		if kind == applyActions {
			list, err := decodeActions(b[8:length])
			if err != nil {
				return nil, nil, err
			}
			actions = append(actions, list...)
		} else {
			other = append(other, b[:length]...)
		}
		b = b[length:]
	}
	return actions, other, nil
}

func decodeActions(b []byte) ([]Action, error) {
	var list []Action
	for len(b) > 0 {
		if len(b) < 8 {
			return nil, errShort
		}
		length := int(binary.BigEndian.Uint16(b[2:]))
		if length < 8 || length > len(b) {
			return nil, fmt.Errorf("action of %d bytes in %d", length, len(b))
		}
		list, b = append(list, Action(bytes.Clone(b[:length]))), b[length:]
	}
	return list, nil
}
