// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/cilium/ebpf/link"

	"weir/internal/dataplane"
	"weir/internal/plan"
)

// tcx attaches by BPF links that are pinned under the index of their device.
type tcx struct {
	*Marker
	hook hook
}

// path is the pin of a device's link; its folder is made if need be.
func (t tcx) path(ifindex int) (string, error) {
	dir, err := t.conn.PinDir(t.opts, t.hook.folder)
	return filepath.Join(dir, strconv.Itoa(ifindex)), err
}

func (t tcx) attach(ifindex int, _ string, want program) error {
	present, have, err := t.open(ifindex)
	if err != nil {
		return err
	}
	if present != nil {
		defer present.Close()
		if have == want.identity() {
			return nil
		}
	}
	prog, err := want.load(t.hook.attach)
	if err != nil {
		return err
	}
	defer prog.Close()
	if present != nil {
		return present.Update(prog)
	}
	fresh, err := link.AttachTCX(link.TCXOptions{
		Interface: ifindex, Program: prog, Attach: t.hook.attach, Anchor: link.Head(),
	})
	if err != nil {
		return err
	}
	defer fresh.Close() // without a pin this detaches
	path, err := t.path(ifindex)
	if err != nil {
		return err
	}
	return fresh.Pin(path)
}

// open returns the pinned link of a device and its program, or nil if there is
// none. The pin of a device that is gone is removed; its index may have been
// given to another device since.
func (t tcx) open(ifindex int) (link.Link, identity, error) {
	path, err := t.path(ifindex)
	if err != nil {
		return nil, identity{}, err
	}
	return t.openPin(path, func(info *link.Info) bool {
		at := info.TCX()
		return at != nil && int(at.Ifindex) == ifindex
	})
}

// openPin opens the link that is pinned at path and reads what its program is. If
// the kernel has detached it, as alive says from what the kernel tells of it, its
// pin is removed. Nil if there is none.
func (m *Marker) openPin(path string, alive func(*link.Info) bool) (link.Link, identity, error) {
	l, err := link.LoadPinnedLink(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, identity{}, nil
	}
	if err != nil {
		return nil, identity{}, fmt.Errorf("open the pinned link %s: %w", path, err)
	}
	fail := func(err error) (link.Link, identity, error) {
		l.Close()
		return nil, identity{}, err
	}
	info, err := l.Info()
	if err != nil {
		return fail(fmt.Errorf("inspect the pinned link %s: %w", path, err))
	}
	if !alive(info) {
		if err := os.Remove(path); err != nil {
			return fail(fmt.Errorf("remove a stale pin: %w", err))
		}
		m.log.Debug("removed the marking of a place that is gone", "pin", path)
		return fail(nil)
	}
	who, err := identify(info.Program)
	if err != nil {
		return fail(err)
	}
	return l, who, nil
}

func (t tcx) detach(ifindex int) error {
	l, _, err := t.open(ifindex)
	if l == nil || err != nil {
		return err
	}
	defer l.Close()
	return remove(l)
}

// remove ends a pinned link.
func remove(l link.Link) error {
	// Removing the pin alone would detach too, but some time later.
	if err := l.Detach(); err != nil {
		return err
	}
	return l.Unpin()
}

func (t tcx) list() ([]plan.Port, error) {
	dir, err := t.conn.PinDir(t.opts, t.hook.folder)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the marked ports: %w", err)
	}
	var ports []plan.Port
	for _, entry := range entries {
		ifindex, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a pin of ours
		}
		l, who, err := t.open(ifindex)
		if err != nil {
			return nil, err
		}
		if l == nil {
			continue
		}
		l.Close()
		dev, err := t.conn.LookupIndex(ifindex)
		if errors.Is(err, dataplane.ErrNoDevice) {
			continue // went away this very moment
		}
		if err != nil {
			return nil, err
		}
		ports = append(ports, plan.Port{Device: dev.Name, Ifindex: ifindex, Class: who.class()})
	}
	return ports, nil
}
