// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// libvirtDir is the folder in which libvirt keeps the state of the running QEMU machines.
const libvirtDir = "/run/libvirt/qemu"

// machines finds out which virtual machine a tap belongs to:
//
//   - libvirt writes a file per machine, with its interfaces in their order;
//   - QEMU has the machine's name (-name) and often the taps' (ifname=) on its
//     command line; the taps that were handed to it open are told by the kernel, in
//     /proc/PID/fdinfo. Any user may run a program of that name, so a process is
//     believed of a tap only if the kernel would give the tap to its user: to root on
//     the host, and to the tap's owner (`ip tuntap add ... user NAME`).
type machines struct {
	libvirt string // folder
	proc    string // folder
	sys     string // folder of network devices
}

// nics returns the interfaces of all machines, by the name of their device on the host.
func (m machines) nics() map[string]nic {
	found := m.ofQEMU()
	maps.Copy(found, m.ofLibvirt())
	return found
}

func (m machines) ofLibvirt() map[string]nic {
	found := map[string]nic{}
	files, _ := filepath.Glob(filepath.Join(m.libvirt, "*.xml")) // the pattern is right
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the machine has just stopped
		}
		machine, devices := parseDomain(text)
		addMachine(found, machine, devices)
	}
	return found
}

// parseDomain reads libvirt's state of a machine; nothing if it is not understood.
func parseDomain(text []byte) (machine string, devices []string) {
	var status struct {
		Name       string `xml:"domain>name"`
		Interfaces []struct {
			Target struct {
				Dev string `xml:"dev,attr"`
			} `xml:"target"`
		} `xml:"domain>devices>interface"`
	}
	if xml.Unmarshal(text, &status) != nil {
		return "", nil
	}
	for _, i := range status.Interfaces {
		devices = append(devices, i.Target.Dev)
	}
	return status.Name, devices
}

func (m machines) ofQEMU() map[string]nic {
	found := map[string]nic{}
	for _, pid := range processes(m.proc) {
		dir := filepath.Join(m.proc, fmt.Sprint(pid))
		text, err := os.ReadFile(filepath.Join(dir, "cmdline"))
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
		who := m.user(dir)
		for i, device := range devices {
			if !who.mayHave(m.owner(device)) {
				devices[i] = ""
			}
		}
		addMachine(found, machine, devices)
	}
	return found
}

// user holds the rights of a process.
type user struct {
	uid     int  // real, so that a program with the setuid bit has its caller's; -1 if unknown
	admin   bool // may have any tap of the host: root with CAP_NET_ADMIN, which root in a container lacks
	foreign bool // in another network namespace, whose taps may have the same names
}

const capNetAdmin = 12

// user reads the rights of a process, given its folder in /proc.
func (m machines) user(dir string) user {
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
	here, err := os.Readlink(filepath.Join(m.proc, "self", "ns", "net"))
	there, _ := os.Readlink(filepath.Join(dir, "ns", "net"))
	u.foreign = err == nil && there != here
	return u
}

// owner returns the uid that a tap was made for, -1 if for none or if it is no tap.
func (m machines) owner(device string) int {
	text, _ := os.ReadFile(filepath.Join(m.sys, filepath.Base(device), "owner"))
	uid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return uid
}

func (u user) mayHave(owner int) bool {
	return !u.foreign && (u.admin || owner >= 0 && u.uid == owner)
}

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
				if name, ok := strings.CutPrefix(part, "ifname="); ok {
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

// addMachine notes a machine's interfaces. A device without a name is one that the
// host does not see, and has its number all the same.
func addMachine(found map[string]nic, machine string, devices []string) {
	if machine == "" {
		return
	}
	for i, device := range devices {
		if device != "" {
			found[device] = nic{plainName(machine), i}
		}
	}
}

// plainName returns a machine's name as that of a workload can be: what cannot be typed
// easily becomes a dash.
func plainName(name string) string {
	plain := strings.Map(func(r rune) rune {
		if validName.MatchString("a" + string(r)) {
			return r
		}
		return '-'
	}, name)
	if !validName.MatchString(plain) {
		plain = "vm" + plain
	}
	return plain[:min(len(plain), 64)]
}
