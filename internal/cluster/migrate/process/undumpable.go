// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/cluster/migrate"
)

// dumpable lists the kernel objects without a path that CRIU can dump, by the names that
// /proc/PID/fd gives them.
var dumpable = []string{"eventfd", "eventpoll", "signalfd", "timerfd", "inotify", "fanotify", "bpf-map", "pidfd"}

// Majors of devices that CRIU can dump, and the one of those with few of them.
const (
	majorMemory = 1 // null, zero, random, ...
	majorVT     = 4
	majorTTY    = 5
	majorMisc   = 10
	majorPTY    = 136 // to majorPTYs
	majorPTYs   = 143
	minorTun    = 200
)

// Undumpable returns what CRIU would fail on in a process and those below it, one finding for
// each kind, as far as it can be seen from outside: the processes are only looked at.
func Undumpable(init int) (list []migrate.PreflightFinding) {
	add := func(code string, pid int, remedy, format string, args ...any) {
		if !slices.ContainsFunc(list, func(f migrate.PreflightFinding) bool { return f.Code == code }) {
			msg := fmt.Sprintf("its process %d (%s) %s, which CRIU cannot dump", pid, Name(pid), fmt.Sprintf(format, args...))
			list = append(list, migrate.PreflightFinding{Code: code, Refuses: true, Msg: msg, Remedy: remedy})
		}
	}
	for _, pid := range Descendants(init) {
		undumpableFiles(pid, add)
		undumpableMemory(pid, add)
		undumpableSockets(pid, add)
		if tracer := statusOf(pid, "TracerPid:"); tracer != "" && tracer != "0" {
			add("traced", pid, "end the debugger", "is traced by process %s", tracer)
		}
		for _, kind := range []string{"pid", "user"} {
			if ns := namespaceOf(pid, kind); ns != "" && ns != namespaceOf(init, kind) {
				add("nested-namespace", pid, "start it without containers of its own inside", "is in a %s namespace of its own inside of the container", kind)
			}
		}
	}
	return list
}

type adder func(code string, pid int, remedy, format string, args ...any)

const ioUringRemedy = "start the program without io_uring (most have a setting), or forbid it by a seccomp profile, so that it falls back to epoll"

// undumpableFiles looks at what a process has open.
func undumpableFiles(pid int, add adder) {
	_ = eachDescriptor(pid, func(number, to string) error {
		if name, ok := strings.CutPrefix(to, "anon_inode:"); ok {
			switch name = strings.Trim(name, "[]"); {
			case name == "io_uring":
				add("io-uring", pid, ioUringRemedy, "uses io_uring")
			case !slices.Contains(dumpable, name):
				add("descriptor", pid, "start it without", "has a descriptor of kind %q", name)
			}
			return nil
		}
		var st unix.Stat_t
		if !strings.HasPrefix(to, "/") || unix.Stat(fmt.Sprintf("/proc/%d/fd/%s", pid, number), &st) != nil {
			return nil
		}
		if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFBLK || kind == unix.S_IFCHR && !plainDevice(st.Rdev) {
			add("device-open", pid, "start it without the device", "has the device %s open", to)
		}
		return nil
	}) // f returns no error
}

// plainDevice reports whether CRIU can dump a character device.
func plainDevice(device uint64) bool {
	switch major := unix.Major(device); {
	case major == majorMemory, major == majorVT, major == majorTTY, major >= majorPTY && major <= majorPTYs:
		return true
	case major == majorMisc:
		return unix.Minor(device) == minorTun
	}
	return false
}

// undumpableMemory looks at what a process has mapped: rings stay when their descriptor is closed.
func undumpableMemory(pid int, add adder) {
	eachLine(fmt.Sprintf("/proc/%d/maps", pid), func(line []byte) {
		switch {
		case bytes.Contains(line, []byte("anon_inode:[io_uring]")):
			add("io-uring", pid, ioUringRemedy, "uses io_uring")
		case bytes.Contains(line, []byte("anon_inode:[perf_event]")):
			add("descriptor", pid, "start it without", "has mapped events of perf")
		case bytes.Contains(line, []byte("/secretmem (deleted)")):
			add("secret-memory", pid, "start it without", "has secret memory (memfd_secret)")
		}
	})
}

// undumpableSockets looks at the kinds of a process's sockets.
func undumpableSockets(pid int, add adder) {
	_ = EachSocket(pid, func(fd int) error {
		family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		kind, errKind := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
		protocol, errProtocol := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
		if errors.Join(err, errKind, errProtocol) != nil {
			return nil
		}
		switch family {
		case unix.AF_UNIX, unix.AF_PACKET, unix.AF_NETLINK:
		case unix.AF_INET, unix.AF_INET6:
			switch {
			case protocol == unix.IPPROTO_MPTCP:
				add("mptcp", pid, "start a Go program with GODEBUG=multipathtcp=0", "has a socket of MPTCP")
			case kind != unix.SOCK_RAW && !slices.Contains([]int{unix.IPPROTO_IP, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_UDPLITE}, protocol):
				add("socket", pid, "start it without", "has a socket of IP protocol %d", protocol)
			}
		default:
			add("socket", pid, "start it without", "has a socket of address family %d", family)
		}
		return nil
	}) // f returns no error
}

// Name returns a process's name as the kernel has it, "" if it has ended.
func Name(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // it may have just ended
	return strings.TrimSpace(string(text))
}

// statusOf returns a field of a process's status.
func statusOf(pid int, field string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have just ended
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// namespaceOf returns a process's namespace of a kind, such as "net:[4026531840]".
func namespaceOf(pid int, kind string) string {
	ns, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind)) // it may have just ended
	return ns
}
