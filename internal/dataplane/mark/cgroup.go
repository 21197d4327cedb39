// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	cgroups "weir/internal/cgroup"
	"weir/internal/dataplane"
	"weir/internal/dataplane/device"
	"weir/internal/dataplane/mark/bypass"
	"weir/internal/plan"
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

// cgroup is an open cgroup of version 2. Its id is the inode of its folder, for
// as long as the machine runs.
type cgroup struct {
	*os.File
	id uint64
}

// openCgroup opens the folder. The error wraps dataplane.ErrNoDevice if it is
// gone, and dataplane.ErrNoSupport if it is of version 1.
func openCgroup(path string) (cgroup, error) {
	folder, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cgroup{}, fmt.Errorf("%w: there is no cgroup there", dataplane.ErrNoDevice)
	}
	if err != nil {
		return cgroup{}, err
	}
	var system unix.Statfs_t
	var stat unix.Stat_t
	err = errors.Join(unix.Fstatfs(int(folder.Fd()), &system), unix.Fstat(int(folder.Fd()), &stat))
	switch {
	case err != nil:
	case system.Type == unix.CGROUP_SUPER_MAGIC:
		err = fmt.Errorf("%w: this is a cgroup of version 1, which cannot mark packets; name the one under the cgroup2 mount (often /sys/fs/cgroup/unified), or boot with systemd.unified_cgroup_hierarchy=1", dataplane.ErrNoSupport)
	case system.Type != unix.CGROUP2_SUPER_MAGIC:
		err = errors.New("this is no cgroup; name a folder of the cgroup2 file system, such as /sys/fs/cgroup/system.slice/cron.service")
	}
	if err != nil {
		folder.Close()
		return cgroup{}, err
	}
	return cgroup{folder, stat.Ino}, nil
}

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
	group, err := openCgroup(port.Cgroup)
	if err != nil {
		return err
	}
	defer group.Close()
	h := groupHookOf(port)
	want, err := compile(h.program, port.Class, m.carrier, marking, 0)
	if err != nil {
		return err
	}
	want.place.Levels = levelBits(levelOf(port.Cgroup))
	want.place.Digest = want.digest()
	at, err := m.cgroupPin(h.folder, group.id)
	if err == nil {
		err = remnants{m}.regain(h, group.id, at)
	}
	if err != nil {
		return err
	}
	err = m.attachPinned(at, want, h.attach, func(prog *ebpf.Program) (link.Link, error) {
		return linkCgroup(group, h, prog)
	})
	if err != nil || port.Sockets { // whose devices, and what it makes on the link's, have the qdisc behind them
		return err
	}
	return m.bypass().Bind(group.id)
}

// linkCgroup attaches beside whatever programs others have there.
func linkCgroup(group cgroup, h groupHook, prog *ebpf.Program) (link.Link, error) {
	opts := link.RawLinkOptions{
		Target: int(group.Fd()), Program: prog, Attach: h.attach, Flags: h.flags,
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
	group, err := openCgroup(port.Cgroup)
	if errors.Is(err, dataplane.ErrNoDevice) {
		_, err = m.listCgroups() // removes its remains
		return err
	}
	if err == nil {
		defer group.Close()
		var at pin
		if at, err = m.cgroupPin(h.folder, group.id); err == nil {
			err = remnants{m}.letGo(h, at, group.id, populated(port.Cgroup))
		}
	}
	if err != nil {
		return device.Explain("stop marking packets of "+port.String(), err)
	}
	return nil
}

// populated says whether a process is in a cgroup, or in one below it.
func populated(path string) bool {
	text, err := os.ReadFile(filepath.Join(path, "cgroup.events"))
	return err != nil || strings.Contains(string(text), "populated 1") // the top has no such file
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
			path, err := cgroupPath(id)
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
			_, err := cgroupPath(id)
			return !errors.Is(err, unix.ESTALE)
		}
		return bound[id] || left[id].name == sends.program
	})
}

// cgroupPath finds a cgroup by its id. The kernel opens files of this file system by a handle
// that is nothing but the id (since Linux 5.5), where the agent may do that: it needs
// CAP_DAC_READ_SEARCH before Linux 6.11, and a filter of system calls that lets it. Elsewhere
// the folders are looked through, whose inodes are the ids.
func cgroupPath(id uint64) (string, error) {
	const fileIDKernfs = 0xfe
	for _, top := range cgroups.Mounts() {
		mount, err := os.Open(top)
		if err != nil {
			continue
		}
		handle := unix.NewFileHandle(fileIDKernfs, binary.NativeEndian.AppendUint64(nil, id))
		fd, err := unix.OpenByHandleAt(int(mount.Fd()), handle, unix.O_PATH|unix.O_DIRECTORY)
		mount.Close()
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			return folderByInode(top, id)
		}
		if err != nil {
			return "", fmt.Errorf("find cgroup %d: %w", id, err)
		}
		path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		unix.Close(fd)
		return path, err
	}
	return "", fmt.Errorf("find cgroup %d: no cgroup2 file system is mounted; mount it with: mount -t cgroup2 none /sys/fs/cgroup", id)
}

// folderByInode returns the folder below top with an inode's number; unix.ESTALE = there is
// none.
func folderByInode(top string, inode uint64) (found string, err error) {
	err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		var stat unix.Stat_t
		if err != nil || !entry.IsDir() || unix.Lstat(path, &stat) != nil {
			return nil // it has gone meanwhile
		}
		if stat.Ino == inode {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	if err == nil && found == "" {
		err = unix.ESTALE
	}
	if err != nil {
		return "", fmt.Errorf("find cgroup %d: %w", inode, err)
	}
	return found, nil
}
