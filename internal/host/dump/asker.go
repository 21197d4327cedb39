// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// An Asker asks rtnetlink again and again by one socket and one buffer, for who asks every second:
// a request of the library makes a socket and 64 KB for each part of its answer. It belongs to one
// goroutine.
type Asker struct {
	fd       int
	sequence uint32
	request  []byte
	answer   []byte
}

// answerSize is more than the kernel puts into one part of an answer.
const answerSize = 1 << 16

// patience is how long a kernel may take for a part of an answer.
const patience = 60 * time.Second

// NewAsker returns an Asker of the network namespace of the calling thread.
func NewAsker() (*Asker, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err == nil {
		wait := unix.NsecToTimeval(patience.Nanoseconds())
		if err = errors.Join(unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	return &Asker{fd: fd, answer: make([]byte, answerSize)}, nil
}

// Close closes the socket.
func (a *Asker) Close() { unix.Close(a.fd) }

// Each sends a request and hands over the body of each answer, which is valid until see returns.
// The error is nl.ErrDumpInterrupted if what was listed changed meanwhile; then all answers were
// handed over, too.
func (a *Asker) Each(kind, flags uint16, body []byte, see func(body []byte)) error {
	a.sequence++
	a.request = binary.NativeEndian.AppendUint32(a.request[:0], uint32(unix.SizeofNlMsghdr+len(body)))
	a.request = binary.NativeEndian.AppendUint16(a.request, kind)
	a.request = binary.NativeEndian.AppendUint16(a.request, unix.NLM_F_REQUEST|flags)
	a.request = binary.NativeEndian.AppendUint32(a.request, a.sequence)
	a.request = append(append(a.request, 0, 0, 0, 0), body...)
	if _, err := unix.Write(a.fd, a.request); err != nil {
		return fmt.Errorf("ask the kernel: %w", err)
	}
	interrupted := error(nil)
	for {
		n, err := unix.Read(a.fd, a.answer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the kernel's answer: %w", err)
		}
		done, err := a.part(a.answer[:n], flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP, see)
		if errors.Is(err, nl.ErrDumpInterrupted) {
			interrupted, err = err, nil
		}
		if err != nil || done {
			return errors.Join(err, interrupted)
		}
	}
}

// part hands over what is in a part of an answer, and reports whether that was the last one.
func (a *Asker) part(messages []byte, list bool, see func(body []byte)) (done bool, err error) {
	for len(messages) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(messages))
		kind, flags := binary.NativeEndian.Uint16(messages[4:]), binary.NativeEndian.Uint16(messages[6:])
		if size < unix.SizeofNlMsghdr || size > len(messages) {
			return true, io.ErrUnexpectedEOF
		}
		body := messages[unix.SizeofNlMsghdr:size]
		asked := binary.NativeEndian.Uint32(messages[8:]) == a.sequence
		messages = messages[min((size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1), len(messages)):]
		if !asked {
			continue // of a request whose answer was not read to its end
		}
		if flags&unix.NLM_F_DUMP_INTR != 0 {
			err = nl.ErrDumpInterrupted
		}
		switch kind {
		case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			if code := number(body); code != 0 {
				return true, unix.Errno(-code)
			}
			return true, err
		}
		see(body)
		done = !list
	}
	return done, err
}

// number is what an answer without a body begins with: 0, or an error.
func number(body []byte) int32 {
	if len(body) < 4 {
		return 0
	}
	return int32(binary.NativeEndian.Uint32(body))
}

// Attributes hands over the attributes of a message behind its head.
func Attributes(list []byte, see func(kind uint16, value []byte)) {
	for len(list) >= unix.SizeofRtAttr {
		size := int(binary.NativeEndian.Uint16(list))
		if size < unix.SizeofRtAttr || size > len(list) {
			return
		}
		see(binary.NativeEndian.Uint16(list[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), list[unix.SizeofRtAttr:size])
		list = list[min((size+unix.RTA_ALIGNTO-1)&^(unix.RTA_ALIGNTO-1), len(list)):]
	}
}
