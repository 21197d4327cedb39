// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Cable is the two ends of a workload's line to the host where it is like a
// virtual machine's: a tap on the host, and the tap that is the machine's own
// device. A program has to carry the frames from one to the other, as QEMU or
// vhost does.
type Cable struct{ Host, Guest *os.File }

// tun is where taps are made.
const tun = "/dev/net/tun"

// newTap makes a tap in the namespace; it is there for as long as the file is open.
func (n *NS) newTap(name string) (file *os.File, err error) {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	err = n.Do(func() error {
		fd, err := unix.Open(tun, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			_ = exec.Command("modprobe", "tun").Run() // opening tells whether it helped
			fd, err = unix.Open(tun, unix.O_RDWR|unix.O_CLOEXEC, 0)
		}
		if err != nil {
			return fmt.Errorf("open %s: %w; run the scenario in the VM (vm/run)", tun, err)
		}
		ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
			unix.Close(fd)
			return err
		}
		file = os.NewFile(uintptr(fd), name)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("make tap %s in %s: %w", name, n.Name, err)
	}
	return file, nil
}

// tap connects a workload's namespace to br0 by two taps.
func (n *Net) tap(device string, ns *NS, peer string, addr net.HardwareAddr) error {
	host, err := n.Host.newTap(device)
	if err != nil {
		return err
	}
	guest, err := ns.newTap(peer)
	if err != nil {
		return errors.Join(err, host.Close())
	}
	n.Cables = append(n.Cables, Cable{host, guest})
	for _, end := range []struct {
		ns   *NS
		name string
		addr net.HardwareAddr
	}{{n.Host, device, nil}, {ns, peer, addr}} {
		l, err := end.ns.find(end.name)
		if err != nil {
			return err
		}
		if err := end.ns.link.LinkSetMTU(l, n.spec.MTU); err != nil {
			return fmt.Errorf("set the MTU of %s: %w", end.name, err)
		}
		if end.addr != nil {
			if err := end.ns.link.LinkSetHardwareAddr(l, end.addr); err != nil {
				return fmt.Errorf("set the address of %s: %w", end.name, err)
			}
		}
	}
	if err := n.Host.enslave(device, "br0"); err != nil {
		return err
	}
	return errors.Join(n.Host.up(device), ns.up(peer))
}
