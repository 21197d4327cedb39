// SPDX-License-Identifier: Apache-2.0

// Package machine finds out which virtual machine, or which guest of a program that runs such, an
// interface of the host belongs to. Each program has a file here:
//
//   - QEMU has the machine's name and often the taps' on its command line, and the taps that
//     were handed to it open are told by the kernel;
//   - Proxmox VE names devices after the guest's number, and has a file with the guest's name;
//   - libvirt writes a file per guest, with its interfaces in their order, and has a socket;
//   - Incus and LXD answer at a socket.
//
// Example: on a host with a machine db of libvirt's,
//
//	machine.OnHost().Of([]string{"vnet3"}) // {"vnet3": {Machine: "db", Index: 0}}
//
// To add one: a file with a function like ofProxmox, a line in Of, a row in docs/vm-host.md.
package machine

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"weir/internal/core/bound"
)

// NIC is an interface's place in its machine.
type NIC struct {
	Machine string
	Index   int // 0, 1, ... in the machine's order
}

// patience is how long one daemon may take to answer, and pause for how long one that did not is
// not asked again.
const (
	patience = time.Second
	pause    = time.Minute
)

// Finder knows where the programs have what they know. It is not for use by several goroutines at
// once.
type Finder struct {
	Proc, Sys      string   // folders of processes and of network devices
	Proxmox        string   // folder
	LibvirtFolders []string // of running guests
	// The daemons' sockets. They are asked last, and only if a device is not known by then.
	LibvirtSockets, IncusSockets []string

	failed map[string]time.Time // when a daemon's answer failed to come, by socket
}

// OnHost returns a Finder for this host.
func OnHost() *Finder {
	return &Finder{
		Proc: "/proc", Sys: "/sys/class/net", Proxmox: "/etc/pve",
		LibvirtFolders: []string{"/run/libvirt/qemu", "/run/libvirt/lxc", "/run/libvirt/libxl"},
		// libvirtd has all drivers on older hosts, a daemon each on others. Its sockets for
		// readers refuse every change.
		LibvirtSockets: []string{"/run/libvirt/libvirt-sock-ro", "/run/libvirt/virtqemud-sock-ro", "/run/libvirt/virtlxcd-sock-ro", "/run/libvirt/virtxend-sock-ro"},
		IncusSockets:   []string{"/var/lib/incus/unix.socket", "/var/snap/lxd/common/lxd/unix.socket", "/var/lib/lxd/unix.socket"},
	}
}

// Of returns the machines of these devices, and perhaps of others, by the device's name. A device
// that is none's, or whose machine does not tell, is missing.
func (f *Finder) Of(devices []string) map[string]NIC {
	found := f.ofQEMU()
	maps.Copy(found, f.ofProxmox(devices))
	maps.Copy(found, f.ofLibvirtFiles()) // which knows more of a machine than QEMU
	f.ask(found, devices, f.IncusSockets, ofIncus)
	f.ask(found, devices, f.LibvirtSockets, ofLibvirtSocket)
	return found
}

// ask asks daemons for those devices that are not found yet.
func (f *Finder) ask(found map[string]NIC, devices, sockets []string, of func(socket string) (map[string]NIC, error)) {
	unknown := func(device string) bool { _, known := found[device]; return !known }
	for _, socket := range sockets {
		if !slices.ContainsFunc(devices, unknown) || time.Since(f.failed[socket]) < pause {
			continue
		}
		said, err := of(socket)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			if f.failed == nil {
				f.failed = map[string]time.Time{}
			}
			f.failed[socket] = time.Now()
		}
		for device, nic := range said {
			if unknown(device) {
				found[device] = nic
			}
		}
	}
}

// Files are such that a change beside them is a reason to ask again.
func (f *Finder) Files() []string {
	var files []string
	for _, folder := range f.LibvirtFolders {
		files = append(files, filepath.Join(folder, "machine.xml"))
	}
	return files
}

// note notes a machine's interfaces. A device without a name is one that the host does not see,
// and has its number all the same.
func note(found map[string]NIC, machine string, devices []string) {
	if machine == "" {
		return
	}
	machine = bound.Shown(machine)
	for i, device := range devices {
		if device != "" {
			found[device] = NIC{machine, i}
		}
	}
}
