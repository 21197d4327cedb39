// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
)

// renamed makes the server's cable its eth0 as it is.
var renamed = []string{"ip link set cable0 down", "ip link set cable0 name eth0"}

// keys has the two ends of a WireGuard tunnel know each other.
func (b *kindBed) keys() {
	b.host.must("configure link0", b.host.do(wireGuard{device: "link0", key: 1, port: wireGuardPort, peer: 2, endpoint: net.ParseIP(overlayServer), endpointPort: wireGuardPort, keepalive: 1}.configure))
	b.srv.must("configure eth0", b.srv.do(wireGuard{device: "eth0", key: 2, port: wireGuardPort, peer: 1, endpoint: net.ParseIP(overlayHost), endpointPort: wireGuardPort, keepalive: 1}.configure))
}

// team is the kernel's other way to make one link of two cables, whose mode its daemon sets.
func team(mode string) kindOfLink {
	join := []string{"ip link add link0 type team"}
	return kindOfLink{name: "team, " + mode, second: true, host: join,
		srv: []string{"ip link add eth0 type bond mode balance-rr miimon 50",
			"ip link set cable0 down", "ip link set cable0 master eth0", "ip link set cable0b down", "ip link set cable0b master eth0",
			"ip link set cable0 up", "ip link set cable0b up"},
		made: func(b *kindBed) {
			b.host.must("set the team's mode", b.host.do(func() error { return setTeam("link0", "mode", teamString, nl.ZeroTerminated(mode)) }))
			for _, port := range []string{"up0", "up0b"} {
				b.host.run("ip link set " + port + " down")
				b.host.run("ip link set " + port + " master link0")
				b.host.run("ip link set " + port + " up")
			}
			if mode == "activebackup" {
				index := uint32(b.host.device("up0").Attrs().Index)
				b.host.must("set the active port", b.host.do(func() error { return setTeam("link0", "activeport", teamU32, nl.Uint32Attr(index)) }))
			}
		}}
}

// Of linux/if_team.h; types of options are those of netlink's attributes.
const (
	teamOptionsSet = 1
	teamIfindex    = 1
	teamListOption = 2
	teamItemOption = 1
	teamOptionName = 1
	teamOptionType = 3
	teamOptionData = 4
	teamU32        = 3 // NLA_U32
	teamString     = 5 // NLA_STRING
)

// setTeam sets an option of a team, in the namespace of the calling thread.
func setTeam(device, option string, kind uint8, value []byte) error {
	family, err := netlink.GenlFamilyGet("team")
	if err != nil {
		return err
	}
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	list := nl.NewRtAttr(unix.NLA_F_NESTED|teamListOption, nil)
	item := list.AddRtAttr(unix.NLA_F_NESTED|teamItemOption, nil)
	item.AddRtAttr(teamOptionName, nl.ZeroTerminated(option))
	item.AddRtAttr(teamOptionType, nl.Uint8Attr(kind))
	item.AddRtAttr(teamOptionData, value)
	q := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	q.AddData(&nl.Genlmsg{Command: teamOptionsSet, Version: 1})
	q.AddData(nl.NewRtAttr(teamIfindex, nl.Uint32Attr(uint32(link.Attrs().Index))))
	q.AddData(list)
	if _, err = q.Execute(unix.NETLINK_GENERIC, 0); errors.Is(err, unix.ESRCH) {
		err = nil // it is set, and no program listens to be told of it
	}
	return err
}

// relayed makes both ends taps, between which a program carries frames, as a VPN that bridges does.
func relayed(b *kindBed) {
	b.srv.down("cable0")
	relay := launch(b.host, "relay", "link0", b.srv.name, "eth0")
	if line, err := relay.out.ReadString('\n'); err != nil {
		b.t.Fatalf("relay: %q, %v", line, err)
	}
}

// relay carries frames between a tap here and one in another namespace.
func relay(args []string) error {
	near, err := makeTap(args[0])
	if err != nil {
		return err
	}
	other, err := netns.GetFromPath(filepath.Join("/run/netns", args[1]))
	if err != nil {
		return err
	}
	var far *os.File
	if err := nsthread.In(other, func() (err error) { far, err = makeTap(args[2]); return err }); err != nil {
		return err
	}
	carry := func(from, to *os.File) {
		for frame := make([]byte, 1<<16); ; {
			n, err := from.Read(frame)
			if err == nil {
				_, err = to.Write(frame[:n])
			}
			if err != nil && !errors.Is(err, unix.EIO) { // EIO: a device is down
				return
			}
		}
	}
	go carry(near, far)
	go carry(far, near)
	fmt.Println("taps are there")
	<-stdinEnded()
	return nil
}

// dial makes link0 and eth0 the two ends of a session of PPPoE over the cable, as a modem's and a
// provider's are once discovery, LCP and IPCP have ended.
func (b *kindBed) dial() {
	near, far := b.host.device("up0").Attrs().HardwareAddr, b.srv.device("cable0").Attrs().HardwareAddr
	err := b.host.do(func() error { return session(b, "link0", "up0", far) })
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT) {
		b.t.Skipf("skipped: this kernel has no such device: PPPoE: %v", err)
	}
	b.host.must("PPPoE", err)
	b.srv.must("PPPoE", b.srv.do(func() error { return session(b, "eth0", "cable0", near) }))
}

// Of linux/ppp-ioctl.h.
const (
	pppChannelOf     = 0x80047437 // PPPIOCGCHAN
	pppAttachChannel = 0x40047438 // PPPIOCATTCHAN
	pppNewUnit       = 0xc004743e // PPPIOCNEWUNIT
	pppConnect       = 0x4004743a // PPPIOCCONNECT
	pppSetMode       = 0x4008744b // PPPIOCSNPMODE: of a network protocol
	pppIPv4          = 0x21
)

// session makes a ppp device over a cable, in the namespace of the calling thread. It lives as long
// as its files.
func session(b *kindBed, name, over string, remote net.HardwareAddr) error {
	keep := func(fd int, err error) (int, error) {
		if err == nil {
			b.t.Cleanup(func() { unix.Close(fd) })
		}
		return fd, err
	}
	socket, err := keep(unix.Socket(unix.AF_PPPOX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	if err == nil {
		err = unix.Connect(socket, &unix.SockaddrPPPoE{SID: 7, Remote: remote, Dev: over})
	}
	if err != nil {
		return err
	}
	number, err := unix.IoctlGetInt(socket, pppChannelOf)
	if err != nil {
		return fmt.Errorf("number of the channel: %w", err)
	}
	channel, err := keep(unix.Open("/dev/ppp", unix.O_RDWR|unix.O_CLOEXEC, 0))
	if err != nil {
		return err
	}
	unit, err := keep(unix.Open("/dev/ppp", unix.O_RDWR|unix.O_CLOEXEC, 0))
	if err != nil {
		return err
	}
	if err := unix.IoctlSetPointerInt(channel, pppAttachChannel, number); err != nil {
		return fmt.Errorf("attach the channel: %w", err)
	}
	if err := unix.IoctlSetPointerInt(unit, pppNewUnit, 1000); err != nil {
		return fmt.Errorf("new unit: %w", err)
	}
	if err := unix.IoctlSetPointerInt(channel, pppConnect, 1000); err != nil {
		return fmt.Errorf("connect the channel: %w", err)
	}
	mode := [2]int32{pppIPv4, 0} // pass
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(unit), pppSetMode, uintptr(unsafe.Pointer(&mode))); errno != 0 {
		return fmt.Errorf("pass IPv4: %w", errno)
	}
	device, err := netlink.LinkByName("ppp1000")
	if err != nil {
		return err
	}
	return netlink.LinkSetName(device, name)
}
