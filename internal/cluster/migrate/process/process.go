// SPDX-License-Identifier: Apache-2.0

// Package process reads from /proc and the file system what a migration has to know of
// a container, whichever engine runs it: how much memory a checkpoint will carry, which
// sockets it cannot, how large its files are.
package process

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/cluster/migrate"
)

// RuncConf is the file from which runc reads what it tells CRIU. Docker has no other way
// to say that.
const RuncConf = "/etc/criu/runc.conf"

// TCPMode reads out of such a file what CRIU is told to do with established
// connections: "established", "close", or "" for CRIU's default, which is to refuse.
func TCPMode(file string) string {
	text, _ := os.ReadFile(file) // there need not be one
	mode := ""
	for line := range strings.Lines(string(text)) {
		switch line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) {
		case "tcp-established":
			mode = "established"
		case "tcp-close":
			return "close"
		}
	}
	return mode
}

// LastError returns the last line of CRIU's log that says what went wrong before it
// gave up.
func LastError(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	why := ""
	for line := range strings.Lines(string(text)) {
		_, said, ok := strings.Cut(line, "Error (")
		if !ok || strings.Contains(said, "Dumping FAILED") || strings.Contains(said, "Restoring FAILED") {
			continue
		}
		_, said, _ = strings.Cut(said, "): ")
		if strings.HasPrefix(said, "rlimit: Can't setup") {
			continue // CRIU goes on without
		}
		// The rest of these are consequences of what came before.
		if why == "" || !strings.Contains(said, "Can't get rlimit") && !strings.Contains(said, "Unable to detach from") {
			why = strings.TrimSpace(said)
		}
	}
	return why
}

// Ending reports whether a process has ended or is about to: it is gone, its parent has yet to
// learn its end, the kernel is taking it apart, or it has been killed.
func Ending(pid int) bool {
	const (
		exiting = 0x4 // PF_EXITING of the kernel's
		killed  = 1 << (unix.SIGKILL - 1)
	)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the state on
	if len(fields) < 7 || strings.ContainsAny(fields[0], "ZXx") {
		return true
	}
	flags, _ := strconv.ParseUint(fields[6], 10, 64) // digits, as the kernel writes them
	own, _ := strconv.ParseUint(statusOf(pid, "SigPnd:"), 16, 64)
	shared, _ := strconv.ParseUint(statusOf(pid, "ShdPnd:"), 16, 64)
	return flags&exiting != 0 || (own|shared)&killed != 0
}

// CPUFlags returns the features of the machine's first CPU.
func CPUFlags() []string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if flags, ok := strings.CutPrefix(s.Text(), "flags"); ok {
			_, flags, _ = strings.Cut(flags, ":")
			return strings.Fields(flags)
		}
	}
	return nil
}

// Bounds of what is looked at of a container, whose processes choose the number of all of these.
// What is beyond does not count.
const (
	mostLevels    = 256   // of folders in each other: each has a descriptor, and its own way down
	mostEntries   = 1024  // of a folder that are read at once
	mostProcesses = 32768 // pid_max of most hosts
	mostSockets   = 1024  // that are returned
	longestLine   = 64 << 10
)

// FolderSize returns how much a folder's files hold, in bytes. A file that cannot be
// read does not count, nor does the target of a link that is swapped in meanwhile.
func FolderSize(folder string) (size int64) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return 0
	}
	defer root.Close()
	return sizeBelow(root, mostLevels)
}

func sizeBelow(root *os.Root, levels int) (size int64) {
	folder, err := root.Open(".")
	if err != nil {
		return 0
	}
	_ = eachName(folder, func(name string) error {
		info, err := root.Lstat(name)
		switch {
		case err != nil: // it has just been removed
		case info.Mode().IsRegular():
			size += info.Size()
		case info.IsDir() && levels > 1:
			if below, err := root.OpenRoot(name); err == nil {
				size += sizeBelow(below, levels-1)
				below.Close()
			}
		}
		return nil
	})
	return size
}

// eachName calls f with the name of each file in a folder, and closes it.
func eachName(folder *os.File, f func(name string) error) error {
	defer folder.Close()
	for {
		names, err := folder.Readdirnames(mostEntries)
		for _, name := range names {
			if err := f(name); err != nil {
				return err
			}
		}
		if err != nil { // io.EOF, or the process of a folder of /proc has ended
			return nil
		}
	}
}

// eachDescriptor calls f with each open file of a process: its number, and what it leads to.
func eachDescriptor(pid int, f func(number, to string) error) error {
	folder, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil // it has just ended
	}
	return eachName(folder, func(name string) error {
		to, err := os.Readlink(folder.Name() + "/" + name)
		if err != nil {
			return nil // it has just been closed
		}
		return f(name, to)
	})
}

// eachLine calls f with each line of a file, without its end. f may not keep it. A file that is not
// there, or is not any more, has none.
func eachLine(path string, f func(line []byte)) {
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Buffer(nil, longestLine); lines.Scan(); {
		f(lines.Bytes())
	}
}

// Memory returns how much memory a checkpoint of a process and its descendants has
// to carry, in bytes: memory without files behind it. Of memory that several
// processes share, each has its part.
func Memory(init int) (size int64) {
	for _, pid := range Descendants(init) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue // it has just ended
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 1 && (fields[0] == "Pss_Anon:" || fields[0] == "Pss_Shmem:") {
				kb, _ := strconv.ParseInt(fields[1], 10, 64) // digits, as the kernel writes them
				size += kb << 10
			}
		}
	}
	return size
}

// Descendants returns the processes below a process, itself first.
func Descendants(init int) []int {
	list := []int{init}
	for i := 0; i < len(list) && len(list) < mostProcesses; i++ {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", list[i]))
		for _, file := range tasks {
			text, _ := os.ReadFile(file) // it may have just ended
			for _, field := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil {
					list = append(list, pid)
				}
			}
		}
	}
	return list[:min(len(list), mostProcesses)]
}

// States of a socket in /proc/net, in hexadecimal.
const (
	tcpEstablished = "01"
	tcpTimeWait    = "06"
	tcpClose       = "07"
	tcpListen      = "0A"
)

// Sockets lists the established TCP connections in a process's network namespace that
// lead out of it, and the sockets that are bound to an address of its devices. In the
// namespace of host, a process of the engine's, the sockets of the process and those below it
// alone count, and connections not at all: see HostConnections.
func Sockets(pid, host int) (connections []migrate.Connection, bound []string) {
	own := owned(pid, host)
	eachSocket(pid, func(s socketLine) {
		if s.local.Addr().IsLoopback() || own != nil && !own[s.inode] {
			return
		}
		switch {
		case len(connections)+len(bound) == mostSockets:
		case s.tcp && s.state == tcpEstablished && s.remote.Addr() != s.local.Addr() && own == nil:
			connections = append(connections, migrate.Connection{Local: s.local.String(), Remote: s.remote.String()})
		case (!s.tcp || s.state == tcpListen) && !s.local.Addr().IsUnspecified() && !s.local.Addr().IsMulticast():
			bound = append(bound, s.protocol+" "+s.local.String())
		}
	})
	return connections, bound
}

// HostConnections returns a finding if a container in the network of its host has TCP
// connections. They cannot go with it, and CRIU stops each by rules among the host's own while
// it writes them down.
func HostConnections(init, host int) (list []migrate.PreflightFinding) {
	own := owned(init, host)
	if own == nil {
		return nil
	}
	found, first := 0, socketLine{}
	eachSocket(init, func(s socketLine) {
		if s.tcp && s.state != tcpListen && s.state != tcpClose && s.state != tcpTimeWait && own[s.inode] {
			if found++; found == 1 {
				first = s
			}
		}
	})
	if found > 0 {
		list = append(list, migrate.PreflightFinding{Code: "host-network", Refuses: true,
			Msg:    fmt.Sprintf("it is in the network of its host and has %d TCP connections there, such as %s with %s, which would be cut off", found, first.local, first.remote),
			Remedy: "wait until they end, or start it in a network of its own"})
	}
	return list
}

// owned returns the inodes of the sockets of a process and those below it, nil if its network
// namespace is not that of host.
func owned(init, host int) map[string]bool {
	if ns := namespaceOf(init, "net"); ns == "" || ns != namespaceOf(host, "net") {
		return nil
	}
	list := map[string]bool{}
	for _, pid := range Descendants(init) {
		_ = eachDescriptor(pid, func(_, to string) error {
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				list[strings.TrimSuffix(inode, "]")] = true
			}
			return nil
		})
	}
	return list
}

// socketLine is a line of /proc/net/tcp and its like.
type socketLine struct {
	tcp           bool
	protocol      string // tcp or udp
	local, remote netip.AddrPort
	state, inode  string
}

// eachSocket calls f for each TCP and UDP socket in a process's network namespace.
func eachSocket(pid int, f func(socketLine)) {
	for _, file := range []string{"tcp", "tcp6", "udp", "udp6"} {
		eachLine(fmt.Sprintf("/proc/%d/net/%s", pid, file), func(line []byte) {
			fields := strings.Fields(string(line))
			if len(fields) < 10 {
				return
			}
			s := socketLine{tcp: strings.HasPrefix(file, "tcp"), protocol: strings.TrimSuffix(file, "6"), state: fields[3], inode: fields[9]}
			var errLocal, errRemote error
			s.local, errLocal = endpoint(fields[1])
			s.remote, errRemote = endpoint(fields[2])
			if errors.Join(errLocal, errRemote) == nil {
				f(s)
			}
		})
	}
}

// endpoint reads "0100007F:1F90": an address in words of the machine's byte order and
// a port.
func endpoint(text string) (netip.AddrPort, error) {
	address, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	if err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("address %q", text)
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	a, ok := netip.AddrFromSlice(raw)
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("address %q", text)
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), nil
}
