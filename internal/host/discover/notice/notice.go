// SPDX-License-Identifier: Apache-2.0

// Package notice reads the kernel's notices of devices, at a price that no container raises.
//
// A container may set its end of a pair up and down 10,000 times a second, and the kernel tells of
// the host's end each time. So notices are read many at once, the last one of each device counts,
// and a device of which very many come is not listened to for 100 ms, and to be asked for anew
// after it.
package notice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	tooOften = 32                     // so many notices of a device at once are too many
	deafness = 100 * time.Millisecond // how long it is not listened to then
	mostDeaf = 1000                   // so many devices; a filter has at most 4,096 instructions
)

// most bounds what is read at once. The socket's buffer holds fewer.
const most = 4096

// A Reader reads what the kernel tells of the devices of a network namespace, and of the numbers
// that others have there. Its socket is none of those that Go's runtime watches: that would wake
// the agent for each notice. It belongs to one goroutine, but for End.
type Reader struct {
	fd     int
	ended  int // an eventfd, which ends a read that waits
	buffer []byte
	deaf   []int     // devices that are not listened to
	until  time.Time // till then
	second time.Time // when it began
	reads  int       // in this second
	batch  Batch
}

// A Batch is what was read at once. It is valid until the next read.
type Batch struct {
	Links      map[int]Link // by the device's index
	Namespaces []int        // numbers that the kernel has taken back
	Again      []int        // devices to ask for anew, after Links were taken in
	Lost       bool         // there was more
}

// Link is the last notice of a device.
type Link struct {
	Kind  uint16 // RTM_NEWLINK or RTM_DELLINK
	Body  []byte
	count int // how many there were
}

// Subscribe opens a socket in a network namespace, netns.None() = the calling thread's.
func Subscribe(at netns.NsHandle) (*Reader, error) {
	socket, err := nl.SubscribeAt(at, netns.None(), unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NSID)
	if err != nil {
		return nil, fmt.Errorf("subscribe to link messages: %w", err)
	}
	defer socket.Close()
	// A larger buffer makes an overflow rarer.
	_ = socket.SetReceiveBufferSize(1<<20, true)
	r := &Reader{buffer: make([]byte, nl.RECEIVE_BUFFER_SIZE), batch: Batch{Links: map[int]Link{}}}
	if r.ended, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("subscribe to link messages: %w", err)
	}
	if r.fd, err = unix.FcntlInt(uintptr(socket.GetFd()), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		unix.Close(r.ended)
		return nil, fmt.Errorf("subscribe to link messages: %w", err)
	}
	return r, nil
}

// End ends a read that waits, and all later ones.
func (r *Reader) End() { _, _ = unix.Write(r.ended, binary.NativeEndian.AppendUint64(nil, 1)) }

// Close closes the socket. No read waits.
func (r *Reader) Close() {
	unix.Close(r.fd)
	unix.Close(r.ended)
}

// Read waits for notices, or until a device is to be listened to again, and reads all that have
// come.
func (r *Reader) Read() (*Batch, error) {
	clear(r.batch.Links)
	r.batch = Batch{Links: r.batch.Links}
	if err := r.wait(); err != nil {
		return nil, err
	}
	if len(r.deaf) > 0 && !time.Now().Before(r.until) {
		r.batch.Again, r.deaf = r.deaf, nil
		if err := r.listen(); err != nil {
			return nil, err
		}
	}
	if err := r.drain(); err != nil {
		return nil, fmt.Errorf("receive link messages: %w", err)
	}
	return &r.batch, r.ignore()
}

func (r *Reader) drain() error {
	for range most {
		length, err := unix.Read(r.fd, r.buffer)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.ENOBUFS):
			r.batch.Lost = true
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		default:
			r.note(r.buffer[:length])
		}
	}
	return nil
}

// Notices are left unread for four times the CPU time that the last took: they take at most a fifth
// of a CPU, however many devices change. Beyond the first reads of a second they are gathered, too;
// a container that starts needs some ten reads, and each would delay it.
const (
	share   = 4
	longest = 250 * time.Millisecond
	prompt  = 16 // reads of a second
	gather  = 5 * time.Millisecond
)

// Rest waits before the next read, after one that took so much CPU time to take in.
func (r *Reader) Rest(spent time.Duration) {
	if now := time.Now(); now.Sub(r.second) > time.Second {
		r.second, r.reads = now, 0
	}
	r.reads++
	rest := share * spent
	if r.reads > prompt {
		rest = max(rest, gather)
	}
	time.Sleep(min(rest, longest))
}

// Spent returns the CPU time that the thread has had; 0 on a kernel that does not say.
func Spent() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

func (r *Reader) wait() error {
	for {
		timeout := -1
		if len(r.deaf) > 0 {
			timeout = int(max(time.Until(r.until), 0)/time.Millisecond) + 1
		}
		ready := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}, {Fd: int32(r.ended), Events: unix.POLLIN}}
		_, err := unix.Poll(ready, timeout)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case ready[1].Revents != 0:
			return os.ErrClosed
		default:
			return nil
		}
	}
}

// note takes a datagram, which holds one notice.
func (r *Reader) note(datagram []byte) {
	if len(datagram) < unix.SizeofNlMsghdr {
		return
	}
	kind, body := binary.NativeEndian.Uint16(datagram[4:]), datagram[unix.SizeofNlMsghdr:]
	switch kind {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		// A bridge announces its ports with the same message types and another
		// family: there, RTM_DELLINK means that the device left the bridge.
		if len(body) >= unix.SizeofIfInfomsg && body[0] == unix.AF_UNSPEC {
			index := int(int32(binary.NativeEndian.Uint32(body[4:])))
			before := r.batch.Links[index]
			r.batch.Links[index] = Link{kind, append(before.Body[:0], body...), before.count + 1}
		}
	case unix.RTM_DELNSID:
		if nsid, ok := Number(body); ok {
			r.batch.Namespaces = append(r.batch.Namespaces, nsid)
		}
	}
}

// Number reads the number of a namespace out of an RTM_NEWNSID or RTM_DELNSID message.
func Number(data []byte) (nsid int, ok bool) {
	const header = 4 // struct rtgenmsg, padded
	order := binary.NativeEndian
	if len(data) < header {
		return 0, false
	}
	// Attributes: length and type of 16 bits each, the value, padding to 4. Read
	// by hand, since nl.ParseRouteAttr panics on a message that is cut off.
	for data = data[header:]; len(data) >= 4; {
		length, kind := int(order.Uint16(data)), order.Uint16(data[2:])
		if length < 4 || length > len(data) {
			return 0, false
		}
		if kind == netlink.NETNSA_NSID && length >= 8 {
			return int(int32(order.Uint32(data[4:]))), true
		}
		data = data[min(len(data), (length+3)&^3):]
	}
	return 0, false
}

// ignore stops listening to devices of which too many notices came.
func (r *Reader) ignore() error {
	before := len(r.deaf)
	for index, last := range r.batch.Links {
		if last.count > tooOften && len(r.deaf) < mostDeaf && !slices.Contains(r.deaf, index) {
			r.deaf = append(r.deaf, index)
		}
	}
	if len(r.deaf) == before {
		return nil
	}
	if before == 0 {
		r.until = time.Now().Add(deafness)
	}
	return r.listen()
}

// listen has the kernel leave out RTM_NEWLINK of the devices that are not listened to.
func (r *Reader) listen() error {
	const accept, drop = 1<<32 - 1, 0
	load, equal, end := uint16(unix.BPF_LD|unix.BPF_ABS), uint16(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K), uint16(unix.BPF_RET|unix.BPF_K)
	kind, index := [2]byte{}, [4]byte{} // as a message has them; a filter reads them as big endian
	binary.NativeEndian.PutUint16(kind[:], unix.RTM_NEWLINK)
	program := []unix.SockFilter{
		{Code: load | unix.BPF_H, K: 4},
		{Code: equal, K: uint32(binary.BigEndian.Uint16(kind[:])), Jt: 1},
		{Code: end, K: accept},
		{Code: load | unix.BPF_W, K: unix.SizeofNlMsghdr + 4},
	}
	for _, one := range r.deaf {
		binary.NativeEndian.PutUint32(index[:], uint32(one))
		program = append(program, unix.SockFilter{Code: equal, K: binary.BigEndian.Uint32(index[:]), Jf: 1}, unix.SockFilter{Code: end, K: drop})
	}
	program = append(program, unix.SockFilter{Code: end, K: accept})
	err := unix.SetsockoptSockFprog(r.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	if err != nil {
		return fmt.Errorf("filter link messages: %w", err)
	}
	return nil
}
