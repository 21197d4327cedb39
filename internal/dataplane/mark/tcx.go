// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/dataplane"
	"weir/internal/plan"
)

// tcx attaches by BPF links that are pinned under the index of their device.
type tcx struct{ *Marker }

func (t tcx) path(ifindex int) string {
	return filepath.Join(t.pins, strconv.Itoa(ifindex))
}

func (t tcx) attach(port plan.Port) error {
	present, c, err := t.open(port.Ifindex)
	if err != nil {
		return err
	}
	if present != nil {
		defer present.Close()
		if c.Keep == ^t.mask && c.Value == Value(port.Class, t.mask) {
			return nil
		}
	}
	prog, err := load(port.Class, t.mask, ebpf.AttachTCXIngress)
	if err != nil {
		return err
	}
	defer prog.Close()
	if present != nil {
		return present.Update(prog)
	}
	fresh, err := link.AttachTCX(link.TCXOptions{
		Interface: port.Ifindex, Program: prog, Attach: ebpf.AttachTCXIngress, Anchor: link.Head(),
	})
	if err != nil {
		return err
	}
	defer fresh.Close() // without a pin this detaches
	return fresh.Pin(t.path(port.Ifindex))
}

// open returns the pinned link of a device and its constants, or nil if there is
// none. The pin of a device that is gone is removed; its index may have been
// given to another device since.
func (t tcx) open(ifindex int) (link.Link, constants, error) {
	l, err := link.LoadPinnedLink(t.path(ifindex), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, constants{}, nil
	}
	if err != nil {
		return nil, constants{}, fmt.Errorf("open the pinned link %s: %w", t.path(ifindex), err)
	}
	c, err := inspect(l, ifindex)
	if errors.Is(err, dataplane.ErrNoDevice) {
		l.Close()
		if err := os.Remove(t.path(ifindex)); err != nil {
			return nil, constants{}, fmt.Errorf("remove a stale pin: %w", err)
		}
		t.log.Debug("removed the marking of a device that is gone", "ifindex", ifindex)
		return nil, constants{}, nil
	}
	if err != nil {
		l.Close()
		return nil, constants{}, err
	}
	return l, c, nil
}

// inspect reads a link's constants; dataplane.ErrNoDevice says that the kernel
// has detached it because its device went away.
func inspect(l link.Link, ifindex int) (constants, error) {
	info, err := l.Info()
	if err != nil {
		return constants{}, fmt.Errorf("inspect the link of device %d: %w", ifindex, err)
	}
	if at := info.TCX(); at == nil || int(at.Ifindex) != ifindex {
		return constants{}, dataplane.ErrNoDevice
	}
	return readConstants(info.Program)
}

func (t tcx) detach(ifindex int) error {
	l, _, err := t.open(ifindex)
	if l == nil || err != nil {
		return err
	}
	defer l.Close()
	// Removing the pin alone would detach too, but some time later.
	if err := l.Detach(); err != nil {
		return err
	}
	return l.Unpin()
}

func (t tcx) list() ([]plan.Port, error) {
	entries, err := os.ReadDir(t.pins)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the marked ports: %w", err)
	}
	var ports []plan.Port
	for _, entry := range entries {
		ifindex, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a pin of ours
		}
		l, c, err := t.open(ifindex)
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
		ports = append(ports, plan.Port{Device: dev.Name, Ifindex: ifindex, Class: c.class()})
	}
	return ports, nil
}
