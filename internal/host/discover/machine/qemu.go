// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/internal/core/bound"
)

// ofQEMU reads the command lines of QEMU's processes. Any user may run a program of that
// name, so a process is believed of a tap only if the kernel would give the tap to its user:
// to root on the host, and to the tap's owner (`ip tuntap add ... user NAME`).
func (f *Finder) ofQEMU() map[string]NIC {
	found := map[string]NIC{}
	processes, _ := filepath.Glob(filepath.Join(f.Proc, "[0-9]*")) // the pattern is right
	for _, dir := range processes {
		text, err := readCommand(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		machine, devices := parseQEMU(text)
		if machine == "" {
			continue
		}
		for _, device := range openTaps(dir) {
			if !slices.Contains(devices, device) {
				devices = append(devices, device)
			}
		}
		who := f.user(dir)
		for i, device := range devices {
			if !who.mayHave(f.owner(device)) {
				devices[i] = ""
			}
		}
		note(found, machine, devices)
	}
	return found
}

// readCommand returns a process's command line, or the beginning of one that is longer than any
// of QEMU's: each user's may be some MB.
func readCommand(file string) ([]byte, error) { return readAtMost(file, bound.Machine) }

// readAtMost reads the beginning of a file.
func readAtMost(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// user holds the rights of a process.
type user struct {
	uid     int  // real, so that a program with the setuid bit has its caller's; -1 if unknown
	admin   bool // may have any tap of the host: root with CAP_NET_ADMIN, which root in a container lacks
	foreign bool // in another network namespace, whose taps may have the same names
}

const capNetAdmin = 12

// user reads the rights of a process, given its folder in /proc.
func (f *Finder) user(dir string) user {
	u := user{uid: -1}
	text, _ := os.ReadFile(filepath.Join(dir, "status")) // none: it has ended, and may have nothing
	var capabilities uint64
	for line := range strings.Lines(string(text)) {
		switch fields := strings.Fields(line); {
		case len(fields) < 2:
		case fields[0] == "Uid:":
			if uid, err := strconv.Atoi(fields[1]); err == nil {
				u.uid = uid
			}
		case fields[0] == "CapEff:":
			capabilities, _ = strconv.ParseUint(fields[1], 16, 64)
		}
	}
	u.admin = u.uid == 0 && capabilities>>capNetAdmin&1 == 1
	here, err := os.Readlink(filepath.Join(f.Proc, "self", "ns", "net"))
	there, _ := os.Readlink(filepath.Join(dir, "ns", "net"))
	u.foreign = err == nil && there != here
	return u
}

// owner returns the uid that a tap was made for, -1 if for none or if it is no tap.
func (f *Finder) owner(device string) int {
	text, _ := os.ReadFile(filepath.Join(f.Sys, filepath.Base(device), "owner"))
	uid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return uid
}

func (u user) mayHave(owner int) bool {
	return !u.foreign && (u.admin || owner >= 0 && u.uid == owner)
}

// mostNICs are looked at of one command line: the kernel is asked whose each of them is.
const mostNICs = 256

// parseQEMU reads a command line as /proc has it: the machine's name and the taps
// that it names. The name is "" if the program is not QEMU or the machine has none.
func parseQEMU(cmdline []byte) (machine string, devices []string) {
	args := strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
	program := filepath.Base(args[0])
	if !strings.HasPrefix(program, "qemu") && program != "kvm" {
		return "", nil
	}
	for i := 1; i+1 < len(args); i++ {
		switch option, value := strings.TrimPrefix(args[i], "-"), args[i+1]; option {
		case "-name", "name":
			machine = value
			for part := range strings.SplitSeq(value, ",") {
				if name, ok := strings.CutPrefix(part, "guest="); ok {
					machine = name
				}
			}
			machine, _, _ = strings.Cut(machine, ",")
		case "-netdev", "netdev", "-nic", "nic", "-net", "net":
			for part := range strings.SplitSeq(value, ",") {
				if name, ok := strings.CutPrefix(part, "ifname="); ok && len(devices) < mostNICs {
					devices = append(devices, name)
				}
			}
		}
	}
	return machine, devices
}

// openTaps returns the taps that a process holds open, in order of their names.
func openTaps(proc string) []string {
	var devices []string
	fds, _ := os.ReadDir(filepath.Join(proc, "fd"))
	for _, fd := range fds {
		if target, err := os.Readlink(filepath.Join(proc, "fd", fd.Name())); err != nil || target != "/dev/net/tun" {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(proc, "fdinfo", fd.Name()))
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "iff:"); ok {
				devices = append(devices, strings.TrimSpace(name))
			}
		}
	}
	slices.Sort(devices)
	return slices.Compact(devices)
}
