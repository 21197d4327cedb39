// SPDX-License-Identifier: Apache-2.0

// Package chain reads which programs a tcx hook has, in which order, and whose they are: Weir's by
// the beginning of their names.
//
// The programs of a hook run in turn until one ends the chain (TCX_PASS, a drop, a redirect). So
// what stands before Weir's program decides whether Weir sees a packet.
//
// Example: [theirs] [weir_mark_port]: Before says "theirs".
//
// What it does not do: change the order.
package chain

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// ownPrefix begins the names of all of Weir's programs.
const ownPrefix = "weir_"

// mostNames bounds the number of remembered programs.
const mostNames = 1 << 14

// Names are the names of loaded programs. The kernel gives no id to another one soon.
type Names map[ebpf.ProgramID]string

// Before returns the name of another owner's program that runs before the program own at a device,
// "" if there is none. Without own it is that of any other owner's. A device that is gone has none.
func (n Names) Before(ifindex int, hook ebpf.AttachType, own ebpf.ProgramID) (string, error) {
	all, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: hook})
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("list the programs of device %d: %w", ifindex, err)
	}
	for _, at := range all.Programs {
		if at.ID == own {
			break
		}
		name, err := n.of(at.ID)
		if err != nil || !strings.HasPrefix(name, ownPrefix) {
			return name, err
		}
	}
	return "", nil
}

// At returns the name of a program of another owner at a device, at either hook, "" if there is
// none.
func (n Names) At(ifindex int) string {
	for _, hook := range hooks {
		if name, err := n.Before(ifindex, hook, 0); err == nil && name != "" {
			return name
		}
	}
	return ""
}

// hooks are those of tcx.
var hooks = []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress}

// Revision returns a number that changes with the programs at a device.
func Revision(ifindex int) (sum uint64) {
	for _, hook := range hooks {
		sum = sum<<32 + FingerprintAt(ifindex, hook).revision
	}
	return sum
}

// query is what BPF_PROG_QUERY takes and answers (union bpf_attr).
type query struct {
	ifindex, hook, flags, attachFlags uint32
	programs                          uint64
	count, _                          uint32
	programFlags, links, linkFlags    uint64
	revision                          uint64
}

// Fingerprint is another value after each change of the programs at a hook; the zero value = there
// are none.
type Fingerprint struct {
	revision uint64    // the kernel's number, which begins anew when the last program goes
	first    [4]uint32 // the ids of the first programs, of which no two are the same
}

// FingerprintAt returns the fingerprint of a hook of a device. It asks for that alone, so that it
// can be had of many devices every second.
func FingerprintAt(ifindex int, hook ebpf.AttachType) (f Fingerprint) {
	q := query{ifindex: uint32(ifindex), hook: uint32(hook), programs: uint64(uintptr(unsafe.Pointer(&f.first))), count: uint32(len(f.first))}
	_, _, err := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_QUERY, uintptr(unsafe.Pointer(&q)), unsafe.Sizeof(q))
	if err != 0 && err != unix.ENOSPC || q.count == 0 { // ENOSPC: there are more
		return Fingerprint{}
	}
	f.revision = q.revision
	return f
}

// of returns the name of a program; that of one that was unloaded since is none of others.
func (n Names) of(id ebpf.ProgramID) (string, error) {
	if name, ok := n[id]; ok {
		return name, nil
	}
	prog, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, unix.ENOENT) {
		return ownPrefix, nil
	}
	if err != nil {
		return "", fmt.Errorf("open BPF program %d: %w", id, err)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		return "", fmt.Errorf("inspect BPF program %d: %w", id, err)
	}
	if len(n) >= mostNames {
		clear(n)
	}
	n[id] = info.Name
	if info.Name == "" {
		n[id] = fmt.Sprintf("id %d", id)
	}
	return n[id], nil
}
