// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netns"

	"weir/internal/base/nsthread"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark/group"
)

// A workload on a macvlan has a lo of its own. Its namespace has net.ipv4.ip_forward as the host
// had it, and forwards the frames of a packet socket that come back from lo: to the link they have
// neither device nor socket. So their seal is written at that lo. The link of the program is the
// agent's, and the namespace's root cannot take it off. Its kernel answers itself, too: who asked
// is noted where the packet comes back. That needs tcx, Linux 6.6.
var (
	innerLo   = hook{above.attach, above.parent, "inner", above.program, above.handle}
	innerNote = hook{ebpf.AttachTCXIngress, device.ClsactIngress, "inner-asked", classifyProgWeirRulesNote, 0}
)

// inner attaches to the lo of other network namespaces. What other attachments are told as the
// index and the name of a device is the inode of a namespace and a path to it.
type inner struct {
	*Marker
	hook hook
}

func (i inner) pinOf(inode int) (pin, error) {
	dir, err := i.conn.PinDir(i.opts, i.hook.folder)
	return pin{filepath.Join(dir, strconv.Itoa(inode)), func(info *link.Info) bool {
		at := info.TCX()
		return at != nil && at.Ifindex == loopback // 0 once the namespace is gone
	}}, err
}

func (i inner) attach(inode int, path string, want program) error {
	at, err := i.pinOf(inode)
	if err != nil {
		return err
	}
	return i.attachPinned(at, want, i.hook.attach, func(prog *ebpf.Program) (l link.Link, err error) {
		ns, err := netns.GetFromPath(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", dataplane.ErrNoDevice, err) // its process has ended
		}
		defer ns.Close()
		var stat syscall.Stat_t
		if err := syscall.Fstat(int(ns), &stat); err != nil || stat.Ino != uint64(inode) {
			return nil, errors.Join(dataplane.ErrNoDevice, err)
		}
		err = nsthread.In(ns, func() (err error) {
			l, err = link.AttachTCX(link.TCXOptions{Interface: loopback, Program: prog, Attach: i.hook.attach, Anchor: link.Head()})
			return err
		})
		return l, err
	})
}

func (i inner) detach(inode int) error {
	at, err := i.pinOf(inode)
	if err != nil {
		return err
	}
	return i.remove(at)
}

func (i inner) read(inode int) (identity, error) {
	at, err := i.pinOf(inode)
	if err != nil {
		return identity{}, err
	}
	return i.Marker.read(at)
}

func (i inner) list() ([]plan.Port, error) {
	return i.listPinned(i.hook.folder, func(inode uint64) (plan.Port, pin, error) {
		at, err := i.pinOf(int(inode))
		return plan.Port{Device: "lo", Ifindex: int(inode)}, at, err
	})
}

// namespaces returns the network namespaces, but this one, of processes in the cgroups of a
// state, by their inodes: a path to each.
func (s sealer) namespaces(state plan.State) map[int]string {
	found := map[int]string{}
	for _, port := range state.Ports {
		if port.Cgroup == "" || port.Sockets || !s.tcx {
			continue
		}
		for _, pid := range group.Processes(port.Cgroup) {
			path := nsthread.PathOf("/proc/" + strconv.Itoa(pid))
			var stat syscall.Stat_t
			if syscall.Stat(path, &stat) == nil && stat.Ino != s.conn.Netns() {
				found[int(stat.Ino)] = path
			}
		}
	}
	return found
}

// setInner brings the programs to the lo of each namespace.
func (s sealer) setInner(state plan.State, sockets Sockets) error {
	for inode, path := range s.namespaces(state) {
		err := s.attach(innerLo, inode, path, 0, Marking{}, s.seals(state, sockets))
		if err == nil {
			err = s.attach(innerNote, inode, path, 0, Marking{}, func(*program) {})
		}
		if err != nil && !errors.Is(err, dataplane.ErrNoDevice) {
			return err
		}
		s.sealed[sealedPlace{innerLo, inode}] = true
	}
	_, err := s.at(innerLo).list() // removes the pins of namespaces that are gone
	_, failed := s.at(innerNote).list()
	return errors.Join(err, failed)
}

// missingInner says in which namespaces a program was removed.
func (s sealer) missingInner(state plan.State) (lost []string, err error) {
	namespaces := s.namespaces(state)
	for _, inode := range slices.Sorted(maps.Keys(namespaces)) {
		_, err := s.at(innerLo).read(inode)
		if err == nil {
			_, err = s.at(innerNote).read(inode)
		}
		switch {
		case errors.Is(err, errNotOurs):
			lost = append(lost, s.lost(sealedPlace{innerLo, inode}, "lo of "+namespaces[inode])...)
		case err != nil:
			return nil, err
		}
	}
	return lost, nil
}
