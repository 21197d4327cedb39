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
	"strings"
)

// libvirtDir is where libvirt keeps the state of the QEMU machines that run.
const libvirtDir = "/run/libvirt/qemu"

// machines finds out which virtual machine a tap belongs to:
//
//   - libvirt writes a file per machine, with its interfaces in their order;
//   - QEMU has the machine's name (-name) and often the taps' (ifname=) on its
//     command line; the taps that were handed to it open are told by the kernel, in
//     /proc/PID/fdinfo.
type machines struct {
	libvirt string // folder
	proc    string // folder
}

// nics are the interfaces of all machines, by the name of their device on the host.
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
		addMachine(found, machine, devices)
	}
	return found
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

// openTaps are the taps that a process holds open, in order of their names.
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

// plainName is a machine's name as that of a workload can be: what cannot be typed
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
