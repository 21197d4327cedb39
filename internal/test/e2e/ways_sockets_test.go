// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketWays are options and kinds of sockets.
var socketWays = []way{
	{name: "nothing", kinds: everyKind, how: "a UDP socket without any option, to compare with", end: charged},
	{name: "SO_MARK", kinds: everyKind, how: "the mark of another workload", end: charged,
		open: byUDP(func(x *attack, fd int) error {
			return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(x.mark()))
		})},
	{name: "SO_PRIORITY, qdisc", kinds: everyKind, how: "the handle of Weir's qdisc as the priority, which HTB reads before its filters", end: charged,
		open: byUDP(func(_ *attack, fd int) error {
			return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, weirMajor<<16)
		})},
	{name: "SO_PRIORITY, class", kinds: everyKind, how: "the handle of another workload's HTB class as the priority", end: charged,
		open: byUDP(func(x *attack, fd int) error {
			return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, weirMajor<<16|x.Victim)
		})},
	{name: "SO_PRIORITY, host", kinds: everyKind, how: "the handle of the host's HTB class as the priority", end: charged,
		open: byUDP(func(_ *attack, fd int) error {
			return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, weirMajor<<16|0xffff)
		})},
	{name: "SCM_MARK", kinds: everyKind, how: "the mark of another workload in a control message, which no program at setsockopt sees", end: charged,
		open: byMessage(func(x *attack, _ uint64) []byte {
			return controlMessage(unix.SOL_SOCKET, unix.SO_MARK, binary.NativeEndian.AppendUint32(nil, x.mark()))
		})},
	{name: "SCM_PRIORITY", kinds: everyKind, how: "the handle of another workload's HTB class in a control message", end: charged,
		open: byMessage(func(x *attack, _ uint64) []byte {
			return controlMessage(unix.SOL_SOCKET, unix.SO_PRIORITY, binary.NativeEndian.AppendUint32(nil, uint32(weirMajor<<16|x.Victim)))
		})},
	{name: "SO_TXTIME", kinds: everyKind, how: "times of departure: none, an hour ago, in an hour, the largest number", end: charged, open: byTxtime},
	{name: "UDP_SEGMENT", kinds: everyKind, how: "packets of 40 KB that the kernel cuts after the queue", end: charged, open: bySegments},
	{name: "MPTCP", kinds: everyKind, how: "a connection of several subflows, whose sockets the kernel makes", end: charged, open: byMPTCP},
	{name: "io_uring", kinds: everyKind, how: "a kernel thread sends from a ring (SQPOLL)", end: charged, open: byRing},
	{name: "a socket taken along", kinds: []kind{onHost, onMacvlan}, how: "the process moves to another workload's cgroup and sends by a socket that it made before", end: charged,
		after: func(r *run) { r.moveToVictim() }},
	{name: "a socket that outlives its cgroup", kinds: withoutPort, how: "a process elsewhere has a socket of the workload, whose cgroup is removed", end: charged,
		after: func(r *run) {
			r.moveToVictim()
			if r.attack.Kind != onHost {
				r.first.kill()
				(&group{r.t, filepath.Join(r.in.folder, "container")}).remove()
			}
			r.in.remove()
			<-time.After(2 * time.Second) // the agent sees it
		}},
	{name: "a socket that outlives its pod", kinds: ownNetwork, how: "the same, and the pod is removed, as weir-kubernetes says some seconds later; a network's plugin that does not find its device leaves that behind", end: charged,
		after: func(r *run) {
			r.moveToVictim()
			r.first.kill()
			(&group{r.t, filepath.Join(r.in.folder, "container")}).remove()
			r.in.remove()
			r.detach()
			<-time.After(3 * time.Second) // the agent has let go of all that it does not keep
		}},
}

// weirMajor is the major number of the handle of Weir's HTB.
const weirMajor = 0x77e1

// inetSocket opens a socket from the workload's address to the server's.
func inetSocket(x *attack, kind, protocol, port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return fd, err
	}
	if kind&unix.SOCK_STREAM == 0 || x.Kind == onHost {
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte(x.From.To4())}); err != nil {
			return fd, err
		}
	}
	return fd, unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte(x.To.To4())})
}

func udpSocket(x *attack) (int, error) {
	return inetSocket(x, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0, udpPort)
}

// byUDP sends datagrams by a socket with an option.
func byUDP(option func(x *attack, fd int) error) func(x *attack) (send, error) {
	return func(x *attack) (send, error) {
		fd, err := udpSocket(x)
		if err == nil && option != nil {
			err = option(x, fd)
		}
		packet := make([]byte, payload)
		return func(uint64) error {
			_, err := unix.Write(fd, packet)
			return err
		}, err
	}
}

// byMessage sends datagrams with a control message each.
func byMessage(control func(x *attack, n uint64) []byte) func(x *attack) (send, error) {
	return func(x *attack) (send, error) {
		fd, err := udpSocket(x)
		packet := make([]byte, payload)
		return func(n uint64) error {
			_, err := unix.SendmsgN(fd, packet, control(x, n), nil, 0)
			return err
		}, err
	}
}

func controlMessage(level, kind int, data []byte) []byte {
	message := make([]byte, unix.CmsgSpace(len(data)))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&message[0]))
	header.Level, header.Type = int32(level), int32(kind)
	header.SetLen(unix.CmsgLen(len(data)))
	copy(message[unix.CmsgLen(0):], data)
	return message
}

// byTxtime sends datagrams that are to leave at times of all sorts.
func byTxtime(x *attack) (send, error) {
	fd, err := udpSocket(x)
	if err == nil { // struct sock_txtime: CLOCK_MONOTONIC, no flags
		err = unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_TXTIME, string([]byte{unix.CLOCK_MONOTONIC, 0, 0, 0, 0, 0, 0, 0}))
	}
	packet := make([]byte, payload)
	return func(n uint64) error {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return err
		}
		hour := int64(time.Hour)
		at := []int64{0, now.Nano() - hour, now.Nano() + hour, 1<<63 - 1}[n%4]
		_, err := unix.SendmsgN(fd, packet, controlMessage(unix.SOL_SOCKET, unix.SCM_TXTIME, binary.NativeEndian.AppendUint64(nil, uint64(at))), nil, 0)
		return err
	}, err
}

// bySegments hands down 33 datagrams at once.
func bySegments(x *attack) (send, error) {
	fd, err := udpSocket(x)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, payload)
	}
	const segments = 33
	packet := make([]byte, segments*payload)
	return func(n uint64) error {
		if n%segments != 0 {
			return nil
		}
		_, err := unix.Write(fd, packet)
		return err
	}, err
}

// byMPTCP sends by an MPTCP connection, with a second subflow where the workload may have one.
func byMPTCP(x *attack) (send, error) {
	if x.Kind != onHost {
		other := fmt.Sprintf("10.%d.200.%d", x.From.To4()[1], x.From.To4()[3])
		if err := x.do("ip addr add "+other+"/16 dev "+x.Device, "ip mptcp limits set subflow 2 add_addr_accepted 2",
			"ip mptcp endpoint add "+other+" dev "+x.Device+" subflow"); err != nil {
			return nil, err
		}
	}
	fd, err := inetSocket(x, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, tcpPort)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	packet := make([]byte, payload)
	return func(uint64) error {
		_, err := unix.Write(fd, packet)
		return err
	}, err
}

// byTun writes packets into a tun device of the workload, which forwards them.
func byTun(x *attack) (send, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq("t0")
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, err
	}
	tun := os.NewFile(uintptr(fd), "t0")
	packet := ipv4Of(x, []byte{10, 99, 0, 2})
	return func(uint64) error {
		_, err := tun.Write(packet)
		return err
	}, x.do("ip link set t0 up", "ip addr add 10.99.0.1/24 dev t0", "sysctl -qw net.ipv4.ip_forward=1")
}
