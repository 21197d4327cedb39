// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// Bundles of OpenFlow 1.3 (ONF extension 230): messages that the switch keeps
// until they are committed, all at once or not at all.
const (
	onfVendor     = 0x4f4e4600
	bundleControl = 2300
	bundleAdd     = 2301

	bundleOpen    = 0
	bundleCommit  = 4
	bundleDiscard = 6

	bundleAtomic  = 1
	bundleOrdered = 2
)

// Commit makes all changes, or none. If the switch refuses one, the error is an
// *Error that names it.
func (c *Conn) Commit(ctx context.Context, mods []FlowMod) error {
	if len(mods) == 0 {
		return nil
	}
	return c.guard(ctx, func() error { return c.commit(mods) })
}

func (c *Conn) commit(mods []FlowMod) error {
	c.bundle++
	if err := c.control(bundleOpen); err != nil {
		return fmt.Errorf("open a bundle: %w", err)
	}
	sent := map[uint32]FlowMod{}
	for _, m := range mods {
		xid, err := c.send(typeExperimenter, c.inBundle(m))
		if err != nil {
			return err
		}
		sent[xid] = m
	}
	var first *Error
	barrier, err := c.send(typeBarrierRequest, nil)
	if err != nil {
		return err
	}
	note := func(xid uint32, e *Error) {
		if m, ok := sent[xid]; ok && first == nil {
			first = e.about(m.Flow)
		}
	}
	if _, err := c.await(barrier, note); err != nil {
		return err
	}
	if first != nil {
		return errors.Join(error(first), c.control(bundleDiscard))
	}
	xid, err := c.send(typeExperimenter, c.controlBody(bundleCommit))
	if err != nil {
		return err
	}
	if _, err := c.await(xid, note); err != nil {
		if first != nil { // says which change it was
			return first
		}
		return err
	}
	return nil
}

// control sends a bundle control message and waits for its answer.
func (c *Conn) control(kind uint16) error {
	_, err := c.request(typeExperimenter, c.controlBody(kind))
	return err
}

func (c *Conn) controlBody(kind uint16) []byte {
	b := binary.BigEndian.AppendUint32(nil, onfVendor)
	b = binary.BigEndian.AppendUint32(b, bundleControl)
	b = binary.BigEndian.AppendUint32(b, c.bundle)
	b = binary.BigEndian.AppendUint16(b, kind)
	return binary.BigEndian.AppendUint16(b, bundleAtomic|bundleOrdered)
}

// inBundle returns a change as a message to be kept in the bundle. It has the number of
// the message around it, which is the next to be sent.
func (c *Conn) inBundle(m FlowMod) []byte {
	b := binary.BigEndian.AppendUint32(nil, onfVendor)
	b = binary.BigEndian.AppendUint32(b, bundleAdd)
	b = binary.BigEndian.AppendUint32(b, c.bundle)
	b = append(b, 0, 0)
	b = binary.BigEndian.AppendUint16(b, bundleAtomic|bundleOrdered)
	return append(b, encode(message{kind: typeFlowMod, xid: c.xid + 1, body: m.encode()})...)
}
