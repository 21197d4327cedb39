// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"net"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringSize is the number of entries of a ring.
const ringSize = 64

// at returns a number in a ring that is shared with the kernel.
func at(ring []byte, offset uint64) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&ring[offset]))
}

// byXDP sends frames by an AF_XDP socket, which copies them.
func byXDP(x *attack) (send, error) {
	dev, err := net.InterfaceByName(x.Device)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW, 0)
	if err != nil {
		return nil, err
	}
	const chunk = 2048
	frames, err := unix.Mmap(-1, 0, ringSize*chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	memory := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&frames[0]))), Len: ringSize * chunk, Size: chunk}
	err = firstOf(
		unix.SetsockoptString(fd, unix.SOL_XDP, unix.XDP_UMEM_REG, string(unsafe.Slice((*byte)(unsafe.Pointer(&memory)), unsafe.Sizeof(memory)))),
		unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_UMEM_FILL_RING, ringSize),
		unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_UMEM_COMPLETION_RING, ringSize),
		unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_TX_RING, ringSize))
	if err != nil {
		return nil, err
	}
	var offsets unix.XDPMmapOffsets
	size := uint32(unsafe.Sizeof(offsets))
	if _, _, no := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS,
		uintptr(unsafe.Pointer(&offsets)), uintptr(unsafe.Pointer(&size)), 0); no != 0 {
		return nil, no
	}
	shared := unix.MAP_SHARED | unix.MAP_POPULATE
	out, err := unix.Mmap(fd, unix.XDP_PGOFF_TX_RING, int(offsets.Tx.Desc)+ringSize*16, unix.PROT_READ|unix.PROT_WRITE, shared)
	if err != nil {
		return nil, err
	}
	back, err := unix.Mmap(fd, unix.XDP_UMEM_PGOFF_COMPLETION_RING, int(offsets.Cr.Desc)+ringSize*8, unix.PROT_READ|unix.PROT_WRITE, shared)
	if err != nil {
		return nil, err
	}
	for i := range ringSize {
		copy(frames[i*chunk:], udpFrame(x))
	}
	produced, consumed := at(out, offsets.Tx.Producer), at(out, offsets.Tx.Consumer)
	return func(uint64) error {
		at(back, offsets.Cr.Consumer).Store(at(back, offsets.Cr.Producer).Load())
		if n := produced.Load(); n-consumed.Load() < ringSize {
			entry := out[offsets.Tx.Desc+uint64(n%ringSize)*16:]
			binary.NativeEndian.PutUint64(entry, uint64(n%ringSize)*chunk)
			binary.NativeEndian.PutUint32(entry[8:], frame)
			binary.NativeEndian.PutUint32(entry[12:], 0)
			produced.Store(n + 1)
		}
		_, _, no := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		if no != 0 && no != unix.EBUSY {
			return no
		}
		return nil
	}, unix.Bind(fd, &unix.SockaddrXDP{Flags: unix.XDP_COPY, Ifindex: uint32(dev.Index)})
}

// ringOffsets are struct io_sqring_offsets and struct io_cqring_offsets; the last of their
// numbers differ in meaning.
type ringOffsets struct {
	head, tail, mask, entries, a, b, c, reserved uint32
	user                                         uint64
}

// ringParams is struct io_uring_params.
type ringParams struct {
	entries, completions, flags, cpu, idle, features, fd uint32
	reserved                                             [3]uint32
	sq, cq                                               ringOffsets
}

// byRing sends datagrams by an io_uring that a thread of the kernel empties.
func byRing(x *attack) (send, error) {
	const poll, wakeup, opSend = 2, 2, 26 // IORING_SETUP_SQPOLL, IORING_ENTER_SQ_WAKEUP, IORING_OP_SEND
	socket, err := udpSocket(x)
	if err != nil {
		return nil, err
	}
	p := ringParams{flags: poll, idle: 1}
	fd, _, no := unix.Syscall(unix.SYS_IO_URING_SETUP, ringSize, uintptr(unsafe.Pointer(&p)), 0)
	if no != 0 {
		return nil, no
	}
	size := max(p.sq.c+p.entries*4, p.cq.b+p.completions*16) // the array, the completions
	ring, err := unix.Mmap(int(fd), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	entries, err := unix.Mmap(int(fd), 0x10000000, int(p.entries)*64, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	packet := make([]byte, payload)
	head, tail, flags := at(ring, uint64(p.sq.head)), at(ring, uint64(p.sq.tail)), at(ring, uint64(p.sq.a))
	done, ready := at(ring, uint64(p.cq.head)), at(ring, uint64(p.cq.tail))
	return func(uint64) error {
		var failed error
		for ; done.Load() != ready.Load(); done.Add(1) {
			completion := uint64(p.cq.b) + uint64(done.Load()%p.completions)*16
			if result := int32(at(ring, completion+8).Load()); result < 0 {
				failed = passing(unix.Errno(-result))
			}
		}
		n := tail.Load()
		if failed != nil || n-head.Load() == p.entries {
			return failed
		}
		slot := n % p.entries
		entry := entries[slot*64:][:64]
		clear(entry)
		entry[0] = opSend
		binary.NativeEndian.PutUint32(entry[4:], uint32(socket))
		binary.NativeEndian.PutUint64(entry[16:], uint64(uintptr(unsafe.Pointer(&packet[0]))))
		binary.NativeEndian.PutUint32(entry[24:], payload)
		at(ring, uint64(p.sq.c)+uint64(slot)*4).Store(slot)
		tail.Store(n + 1)
		if flags.Load()&1 == 0 { // the thread is awake
			return nil
		}
		if _, _, no := unix.Syscall6(unix.SYS_IO_URING_ENTER, fd, 0, 0, wakeup, 0, 0); no != 0 {
			return no
		}
		return nil
	}, nil
}
