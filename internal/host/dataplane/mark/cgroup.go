// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark/bypass"
	"weir/internal/host/dataplane/mark/group"
)

// groupHook is a place at a cgroup, and the program for it. Its links are pinned under the
// cgroup's id.
type groupHook struct {
	folder  string // of pins
	attach  ebpf.AttachType
	program string
	flags   uint32
}

var (
	// What the processes of the cgroup send.
	sends = groupHook{"cgroups", ebpf.AttachCGroupInetEgress, classifyProgWeirRulesCgrp, outerFirst}
	// Nothing: the cgroup is that of a workload with devices (plan.Port.Sockets).
	opens = groupHook{"sockets", ebpf.AttachCGroupSysctl, classifyProgWeirRulesSock, 0}
)

// groupHookOf is the hook of a port.
func groupHookOf(port plan.Port) groupHook {
	if port.Sockets {
		return opens
	}
	return sends
}

// outerFirst is BPF_F_PREORDER of linux/bpf.h, Linux 6.15: programs of a cgroup
// run before those of the cgroups in it, so that the innermost has the last word.
// Without it, it is the outermost.
const outerFirst = 1 << 6

// cgroupPin is the pin of a cgroup's link in a folder. The link is alive until the cgroup and all
// sockets that were made there are gone.
func (m *Marker) cgroupPin(folder string, id uint64) (pin, error) {
	dir, err := m.conn.PinDir(m.opts, folder)
	return pin{filepath.Join(dir, strconv.FormatUint(id, 10)), func(info *link.Info) bool {
		at := info.Cgroup()
		return at != nil && at.CgroupId == id // 0 once they are gone
	}}, err
}

func (m *Marker) attachCgroup(port plan.Port, marking Marking) error {
	if err := m.tryAttachCgroup(port, marking); err != nil {
		return device.Explain(fmt.Sprintf("mark packets of cgroup %s with class %d", port.Cgroup, port.Class), err)
	}
	return nil
}

func (m *Marker) tryAttachCgroup(port plan.Port, marking Marking) error {
	folder, err := group.Open(port.Cgroup)
	if err != nil {
		return err
	}
	defer folder.Close()
	h := groupHookOf(port)
	want, err := compile(h.program, port.Class, m.carrier, marking, 0)
	if err != nil {
		return err
	}
	want.place.Levels = group.LevelBit(port.Cgroup)
	want.place.Digest = want.digest()
	at, err := m.cgroupPin(h.folder, folder.ID)
	if err == nil {
		err = remnants{m}.regain(h, folder.ID, at)
	}
	if err != nil {
		return err
	}
	err = m.attachPinned(at, want, h.attach, func(prog *ebpf.Program) (link.Link, error) {
		return linkCgroup(folder, h, prog)
	})
	if err != nil || port.Sockets { // whose devices, and what it makes on the link's, have the qdisc behind them
		return err
	}
	return m.bypass().Bind(folder.ID)
}

// linkCgroup attaches beside whatever programs others have there.
func linkCgroup(folder group.Group, h groupHook, prog *ebpf.Program) (link.Link, error) {
	opts := link.RawLinkOptions{
		Target: int(folder.Fd()), Program: prog, Attach: h.attach, Flags: h.flags,
	}
	l, err := link.AttachRawLink(opts)
	if errors.Is(err, unix.EINVAL) && h.flags != 0 { // before 6.15
		opts.Flags = 0
		l, err = link.AttachRawLink(opts)
	}
	if errors.Is(err, ebpf.ErrNotSupported) {
		err = fmt.Errorf("%w: marking by cgroup needs Linux 5.7: %w", dataplane.ErrNoSupport, err)
	}
	return l, err
}

// detachCgroup takes the program off. Of a cgroup without processes the link stays until its
// sockets are gone (remains.go).
func (m *Marker) detachCgroup(port plan.Port) error {
	h := groupHookOf(port)
	folder, err := group.Open(port.Cgroup)
	if errors.Is(err, dataplane.ErrNoDevice) {
		_, err = m.listCgroups() // removes its remains
		return err
	}
	if err == nil {
		defer folder.Close()
		var at pin
		if at, err = m.cgroupPin(h.folder, folder.ID); err == nil {
			err = remnants{m}.release(h, at, folder.ID, group.Populated(port.Cgroup))
		}
	}
	if err != nil {
		return device.Explain("stop marking packets of "+port.String(), err)
	}
	return nil
}

func (m *Marker) listCgroups() ([]plan.Port, error) {
	var ports []plan.Port
	bound := map[uint64]bool{}
	for _, h := range []groupHook{sends, opens} {
		list, err := m.listPinned(h.folder, func(id uint64) (plan.Port, pin, error) {
			at, err := m.cgroupPin(h.folder, id)
			if err != nil {
				return plan.Port{}, at, err
			}
			path, err := group.PathOf(id)
			if errors.Is(err, unix.ESTALE) {
				return plan.Port{}, at, errors.Join(dataplane.ErrNoDevice, remnants{m}.leave(h, id, at))
			}
			bound[id] = bound[id] || err == nil && h == sends
			return plan.Port{Cgroup: path, Sockets: h == opens}, at, err
		})
		if err != nil {
			return nil, err
		}
		ports = append(ports, list...)
	}
	left, err := remnants{m}.all()
	if err != nil {
		return nil, err
	}
	return ports, m.bypass().Keep(func(id uint64, how uint8) bool {
		if how == bypass.Born {
			_, err := group.PathOf(id)
			return !errors.Is(err, unix.ESTALE)
		}
		return bound[id] || left[id].name == sends.program
	})
}
