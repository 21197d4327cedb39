// SPDX-License-Identifier: Apache-2.0

// Package inject makes frames come by a device of the host, as if its wire had brought them.
//
//	in, err := inject.Open("eth0")
//	defer in.Close()
//	err = in.Send(frame) // the host receives it by eth0
//
// A frame is sent into one end of a pair, and a program at the other end hands it to the device.
// Bridge, routing, address translation and the filters of ports treat it like any other. The pair
// goes with Close. It needs tcx, Linux 6.6.
//
// What it does not do: pass XDP programs, or what a card does in hardware.
package inject

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The ends of the pair.
const (
	near = "weir-verify-in"
	far  = "weir-verify-to"
)

// Injector puts frames into what a device receives.
type Injector struct {
	socket int
	pair   netlink.Link
	at     link.Link
}

// Open prepares for a device. One injector can be open at a time in a namespace.
func Open(device string) (*Injector, error) {
	to, err := netlink.LinkByName(device)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", device, err)
	}
	in := &Injector{socket: -1}
	if err := in.open(to.Attrs().Index); err != nil {
		return nil, errors.Join(fmt.Errorf("inject frames at %s: %w", device, err), in.Close())
	}
	return in, nil
}

func (in *Injector) open(to int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = near
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: far}
	if err := netlink.LinkAdd(pair); err != nil {
		return err
	}
	in.pair = pair
	for _, name := range []string{far, near} {
		end, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		// Without an address of its own it sends nothing by itself.
		_ = netlink.LinkSetIP6AddrGenMode(end, 1) // 1: none; a kernel without IPv6 refuses it
		if err := netlink.LinkSetUp(end); err != nil {
			return err
		}
		if name == far {
			if err := in.attach(end.Attrs().Index, to); err != nil {
				return err
			}
			continue
		}
		if err := in.bind(end.Attrs().Index); err != nil {
			return err
		}
	}
	return nil
}

// attach has the device `to` receive what arrives at a device.
func (in *Injector) attach(at, to int) error {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(to)),
		asm.Mov.Imm(asm.R2, ingress),
		asm.FnRedirect.Call(),
		asm.Return(),
	}})
	if err != nil {
		return err
	}
	defer program.Close()
	in.at, err = link.AttachTCX(link.TCXOptions{Interface: at, Program: program, Attach: ebpf.AttachTCXIngress})
	return err
}

const ingress = 1 // BPF_F_INGRESS

func (in *Injector) bind(index int) (err error) {
	in.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Bind(in.socket, &unix.SockaddrLinklayer{Ifindex: index})
}

// Send has the device receive an Ethernet frame.
func (in *Injector) Send(frame []byte) error {
	_, err := unix.Write(in.socket, frame)
	return err
}

// Close removes the pair.
func (in *Injector) Close() (err error) {
	if in.at != nil {
		err = in.at.Close()
	}
	if in.socket >= 0 {
		err = errors.Join(err, unix.Close(in.socket))
	}
	if in.pair != nil {
		err = errors.Join(err, netlink.LinkDel(in.pair))
	}
	return err
}
