// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"path/filepath"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/core/plan"
)

// tcx attaches by BPF links that are pinned under the index of their device.
type tcx struct {
	*Marker
	hook hook
}

// pinOf is the pin of a device's link. The index of a device that is gone may have
// been given to another one since.
func (t tcx) pinOf(ifindex int) (pin, error) {
	dir, err := t.conn.PinDir(t.opts, t.hook.folder)
	return pin{filepath.Join(dir, strconv.Itoa(ifindex)), func(info *link.Info) bool {
		at := info.TCX()
		return at != nil && int(at.Ifindex) == ifindex
	}}, err
}

func (t tcx) attach(ifindex int, name string, want program) error {
	at, err := t.pinOf(ifindex)
	if err != nil {
		return err
	}
	fresh := func(prog *ebpf.Program) (link.Link, error) {
		anchor, err := t.anchor(ifindex)
		if err != nil {
			return nil, err
		}
		return link.AttachTCX(link.TCXOptions{
			Interface: ifindex, Program: prog, Attach: t.hook.attach, Anchor: anchor,
		})
	}
	if err := t.attachPinned(at, want, t.hook.attach, fresh); err != nil {
		return err
	}
	var by preceded
	if _, err = t.read(ifindex); errors.As(err, &by) {
		t.log.Info("Weir's program goes first again", "device", name, "before", by.program)
		return t.lead(at, want, fresh)
	}
	return err
}

func (t tcx) detach(ifindex int) error {
	at, err := t.pinOf(ifindex)
	if err != nil {
		return err
	}
	return t.remove(at)
}

// read returns preceded, too, if another owner's program runs before.
func (t tcx) read(ifindex int) (identity, error) {
	at, err := t.pinOf(ifindex)
	if err != nil {
		return identity{}, err
	}
	l, who, err := t.open(at)
	if err != nil {
		return identity{}, err
	}
	if l == nil {
		return identity{}, errNotOurs
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return identity{}, err
	}
	return who, t.first(ifindex, info.Program)
}

func (t tcx) list() ([]plan.Port, error) {
	return t.listPinned(t.hook.folder, func(number uint64) (plan.Port, pin, error) {
		ifindex := int(number)
		at, err := t.pinOf(ifindex)
		if err != nil {
			return plan.Port{}, at, err
		}
		dev, err := t.conn.LookupIndex(ifindex)
		return plan.Port{Device: dev.Name, Ifindex: ifindex}, at, err
	})
}
