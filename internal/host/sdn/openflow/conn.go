// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"weir/internal/base/tlsfile"
	"weir/internal/core/bound"
)

const version = 4 // OpenFlow 1.3

// Types of messages (A.1).
const (
	typeHello            = 0
	typeError            = 1
	typeEchoRequest      = 2
	typeEchoReply        = 3
	typeExperimenter     = 4
	typeFlowMod          = 14
	typeMultipartRequest = 18
	typeMultipartReply   = 19
	typeBarrierRequest   = 20
	typeBarrierReply     = 21
)

// Kinds of multipart messages (7.3.5).
const (
	multipartFlow     = 1
	multipartSum      = 2 // aggregate flow statistics
	multipartPortDesc = 13
)

const headSize = 8

// maxAnswer bounds all parts of one answer together, in bytes: 65,536 ports, 17,000 flows. One
// message has at most 64 KB by its format.
const maxAnswer = bound.Flows

// maxParts bounds the fields and actions of all flows of an answer: 17,000 flows of five. Each
// takes some hundred bytes of memory, and may have four in the answer.
const maxParts = maxAnswer / 48

// errShort is a message that ends too early.
var errShort = errors.New("message is cut short")

// Conn is a connection to one bridge. It is used by one goroutine at a time; an
// error that is not an *Error ends it.
type Conn struct {
	address string
	conn    net.Conn
	files   tlsfile.Files
	xid     uint32
	bundle  uint32
}

// message is one OpenFlow message without its length.
type message struct {
	version uint8 // 0 = this package's
	kind    uint8
	xid     uint32
	body    []byte
}

// SplitAddress takes apart "unix:PATH", "tcp:HOST:PORT" or "ssl:HOST:PORT"; but for
// ssl as net.Dial wants it.
func SplitAddress(address string) (network, where string, err error) {
	network, where, ok := strings.Cut(address, ":")
	switch {
	case ok && network == "unix" && where != "":
		return network, where, nil
	case ok && (network == "tcp" || network == "ssl"):
		if _, _, err := net.SplitHostPort(where); err == nil {
			return network, where, nil
		}
	}
	return "", "", fmt.Errorf("%q is no address; write unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT", address)
}

// Dial connects to a bridge at "unix:PATH", "tcp:HOST:PORT" or "ssl:HOST:PORT" and
// agrees on OpenFlow 1.3. files are for ssl.
func Dial(ctx context.Context, address string, files tlsfile.Files) (*Conn, error) {
	network, where, err := SplitAddress(address)
	if err != nil {
		return nil, err
	}
	conn, err := dialSwitch(ctx, network, where, files)
	if err != nil {
		return nil, fmt.Errorf("openflow %s: %w", address, reason(files.Explain(err)))
	}
	c := &Conn{address: address, conn: conn, files: files}
	if err := c.guard(ctx, c.hello); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func dialSwitch(ctx context.Context, network, where string, files tlsfile.Files) (net.Conn, error) {
	if network == "ssl" {
		return files.DialByName(ctx, where)
	}
	return new(net.Dialer).DialContext(ctx, network, where)
}

// reason returns the part of a network error that adds something to the address.
func reason(err error) error {
	var call *os.SyscallError
	if errors.As(err, &call) {
		return call.Err
	}
	return err
}

// Close ends the connection. Flows stay.
func (c *Conn) Close() error { return c.conn.Close() }

// guard runs f, which ctx may interrupt.
func (c *Conn) guard(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var meeting sync.Mutex
	over := false
	stop := context.AfterFunc(ctx, func() {
		meeting.Lock()
		defer meeting.Unlock()
		if !over {
			_ = c.conn.SetDeadline(time.Unix(1, 0))
		}
	})
	err := f()
	stop()
	meeting.Lock()
	defer meeting.Unlock()
	over = true
	var refused *Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("openflow %s: no answer: %w", c.address, context.Cause(ctx))
	case errors.As(err, &refused):
		return err
	case errors.Is(err, io.EOF):
		err = errors.New("the switch closed the connection")
	}
	return fmt.Errorf("openflow %s: %w", c.address, reason(c.files.Explain(err)))
}

// errVersion is a bridge that is not allowed to speak OpenFlow 1.3.
var errVersion = errors.New("the bridge does not speak OpenFlow 1.3; allow it: ovs-vsctl add bridge BRIDGE protocols OpenFlow13")

// hello agrees on the version (6.3.1).
func (c *Conn) hello() error {
	if _, err := c.send(typeHello, []byte{0, 1, 0, 8, 0, 0, 0, 1 << version}); err != nil {
		return err
	}
	theirs, err := c.receive(true)
	if err != nil {
		return err
	}
	if theirs.kind != typeHello {
		return fmt.Errorf("the switch begins with a message of type %d, not with hello", theirs.kind)
	}
	if !speaks(theirs) {
		return errVersion
	}
	// A switch that sees no common version says so; a barrier makes it say
	// something in any case.
	_, err = c.request(typeBarrierRequest, nil)
	if refused := new(Error); errors.As(err, &refused) && refused.Type == errorHelloFailed {
		return errVersion
	}
	return err
}

// speaks reads from a hello whether the other side knows this version: from its
// list of versions, else from the highest one.
func speaks(hello message) bool {
	if b := hello.body; len(b) >= 8 && binary.BigEndian.Uint16(b) == 1 {
		return binary.BigEndian.Uint32(b[4:])&(1<<version) != 0
	}
	return hello.version >= version
}

// send writes a message and returns its number.
func (c *Conn) send(kind uint8, body []byte) (uint32, error) {
	c.xid++
	_, err := c.conn.Write(encode(message{kind: kind, xid: c.xid, body: body}))
	return c.xid, err
}

func encode(m message) []byte {
	b := []byte{cmp.Or(m.version, version), m.kind}
	b = binary.BigEndian.AppendUint16(b, uint16(headSize+len(m.body)))
	b = binary.BigEndian.AppendUint32(b, m.xid)
	return append(b, m.body...)
}

// receive reads the next message. first allows any version.
func (c *Conn) receive(first bool) (message, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return message{}, err
	}
	length := int(binary.BigEndian.Uint16(head[2:]))
	if length < headSize {
		return message{}, fmt.Errorf("message of %d bytes", length)
	}
	m := message{version: head[0], kind: head[1], xid: binary.BigEndian.Uint32(head[4:]), body: make([]byte, length-headSize)}
	if _, err := io.ReadFull(c.conn, m.body); err != nil {
		return message{}, err
	}
	if head[0] != version && !first && m.kind != typeError {
		return message{}, fmt.Errorf("message of version %d in a connection of version %d", head[0], version)
	}
	return m, nil
}

// request sends a message and waits for the one that answers it.
func (c *Conn) request(kind uint8, body []byte) (message, error) {
	xid, err := c.send(kind, body)
	if err != nil {
		return message{}, err
	}
	return c.await(xid, nil)
}

// await reads until the answer to message xid. Errors about earlier messages are
// handed to refused, which may be nil. Messages that answer no request are skipped.
func (c *Conn) await(xid uint32, refused func(xid uint32, err *Error)) (message, error) {
	for {
		m, err := c.receive(false)
		switch {
		case err != nil:
			return m, err
		case m.kind == typeEchoRequest:
			if _, err := c.conn.Write(encode(message{kind: typeEchoReply, xid: m.xid, body: m.body})); err != nil {
				return m, err
			}
		case m.kind == typeError:
			e := decodeError(m.body)
			if m.xid == xid || e.Type == errorHelloFailed {
				return m, e
			}
			if refused != nil {
				refused(m.xid, e)
			}
		case m.xid == xid:
			return m, nil
		}
	}
}

// multipart sends a multipart request and returns the bodies of all its answers
// in a row.
func (c *Conn) multipart(kind uint16, body []byte) ([]byte, error) {
	head := binary.BigEndian.AppendUint16(nil, kind)
	xid, err := c.send(typeMultipartRequest, append(append(head, 0, 0, 0, 0, 0, 0), body...))
	if err != nil {
		return nil, err
	}
	var all []byte
	for {
		m, err := c.await(xid, nil)
		if err != nil {
			return nil, err
		}
		if m.kind != typeMultipartReply || len(m.body) < 8 || binary.BigEndian.Uint16(m.body) != kind {
			return nil, fmt.Errorf("message of type %d answers a multipart request", m.kind)
		}
		if len(all)+len(m.body) > maxAnswer {
			return nil, fmt.Errorf("the switch answers with more than %d MB", maxAnswer>>20)
		}
		all = append(all, m.body[8:]...)
		if more := binary.BigEndian.Uint16(m.body[2:]) & 1; more == 0 {
			return all, nil
		}
	}
}

// Selection selects flows.
type Selection struct {
	Cookie, Mask uint64 // those whose cookie is Cookie under Mask
}

// All selects every flow.
var All Selection

// Flows reads the flows of all tables, with their counters.
func (c *Conn) Flows(ctx context.Context, which Selection) ([]Flow, error) {
	var flows []Flow
	err := c.guard(ctx, func() error {
		answer, err := c.multipart(multipartFlow, which.encode())
		if err != nil {
			return err
		}
		flows, err = decodeFlows(answer)
		return err
	})
	return flows, err
}

// Count returns how many flows of all tables are selected (7.3.5.3).
func (c *Conn) Count(ctx context.Context, which Selection) (int, error) {
	count := 0
	err := c.guard(ctx, func() error {
		answer, err := c.multipart(multipartSum, which.encode())
		if err == nil && len(answer) < 24 {
			err = errShort
		}
		if err == nil {
			count = int(binary.BigEndian.Uint32(answer[16:]))
		}
		return err
	})
	return count, err
}

// encode returns the body of a request for statistics of flows: of any table, port and group.
func (s Selection) encode() []byte {
	b := []byte{anyTable, 0, 0, 0}
	b = binary.BigEndian.AppendUint32(b, anyPort)
	b = binary.BigEndian.AppendUint32(b, anyPort) // any group
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, s.Cookie)
	b = binary.BigEndian.AppendUint64(b, s.Mask)
	return Match{}.encode(b)
}

// Ports reads the bridge's ports: their numbers by name.
func (c *Conn) Ports(ctx context.Context) (map[string]uint32, error) {
	var ports map[string]uint32
	err := c.guard(ctx, func() error {
		answer, err := c.multipart(multipartPortDesc, nil)
		if err != nil {
			return err
		}
		ports, err = decodePorts(answer)
		return err
	})
	return ports, err
}

// decodePorts reads a list of ofp_port (7.2.1).
func decodePorts(b []byte) (map[string]uint32, error) {
	const size, name, nameSize = 64, 16, 16
	ports := map[string]uint32{}
	for ; len(b) > 0; b = b[size:] {
		if len(b) < size {
			return nil, errShort
		}
		text, _, _ := bytes.Cut(b[name:name+nameSize], []byte{0})
		ports[string(text)] = binary.BigEndian.Uint32(b)
	}
	return ports, nil
}
