// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"path/filepath"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/plan"
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

func (t tcx) attach(ifindex int, _ string, want program) error {
	at, err := t.pinOf(ifindex)
	if err != nil {
		return err
	}
	return t.attachPinned(at, want, t.hook.attach, func(prog *ebpf.Program) (link.Link, error) {
		return link.AttachTCX(link.TCXOptions{
			Interface: ifindex, Program: prog, Attach: t.hook.attach, Anchor: link.Head(),
		})
	})
}

func (t tcx) detach(ifindex int) error {
	at, err := t.pinOf(ifindex)
	if err != nil {
		return err
	}
	return t.remove(at)
}

func (t tcx) read(ifindex int) (identity, error) {
	at, err := t.pinOf(ifindex)
	if err != nil {
		return identity{}, err
	}
	return t.Marker.read(at)
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
