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
	"io/fs"
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

// FolderSize returns how much a folder's files hold, in bytes. A file that cannot be
// read does not count, nor does the target of a link that is swapped in meanwhile.
func FolderSize(folder string) (size int64) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return 0
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
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
	for i := 0; i < len(list); i++ {
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
	return list
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
	var found []socketLine
	eachSocket(init, func(s socketLine) {
		if s.tcp && s.state != tcpListen && s.state != tcpClose && s.state != tcpTimeWait && own[s.inode] {
			found = append(found, s)
		}
	})
	if len(found) > 0 {
		list = append(list, migrate.PreflightFinding{Code: "host-network", Refuses: true,
			Msg:    fmt.Sprintf("it is in the network of its host and has %d TCP connections there, such as %s with %s, which would be cut off", len(found), found[0].local, found[0].remote),
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
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is a good one
		for _, file := range files {
			to, _ := os.Readlink(file) // it may have just been closed
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				list[strings.TrimSuffix(inode, "]")] = true
			}
		}
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
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 10 {
				continue
			}
			s := socketLine{tcp: strings.HasPrefix(file, "tcp"), protocol: strings.TrimSuffix(file, "6"), state: fields[3], inode: fields[9]}
			var errLocal, errRemote error
			s.local, errLocal = endpoint(fields[1])
			s.remote, errRemote = endpoint(fields[2])
			if errors.Join(errLocal, errRemote) == nil {
				f(s)
			}
		}
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
