// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
)

// pin is where a link is pinned. Alive says from what the kernel tells of it
// whether it is still attached there.
type pin struct {
	path  string
	alive func(*link.Info) bool
}

// attachPinned makes a program that of the link at a pin: it replaces the one there
// in one step, or makes the link.
func (m *Marker) attachPinned(at pin, want program, attach ebpf.AttachType, fresh func(*ebpf.Program) (link.Link, error)) error {
	present, have, err := m.open(at)
	if err != nil {
		return err
	}
	if present != nil {
		defer present.Close()
		if have == want.identity() {
			return nil
		}
	}
	prog, err := want.load(attach, m.notes.Askers)
	if err != nil {
		return err
	}
	defer prog.Close()
	if present != nil {
		return present.Update(prog)
	}
	l, err := fresh(prog)
	if err != nil {
		return err
	}
	defer l.Close() // without a pin this detaches
	return l.Pin(at.path)
}

// open opens the link at a pin and reads what its program is. If the kernel has
// detached it, its pin is removed. Nil if there is none.
func (m *Marker) open(at pin) (link.Link, identity, error) {
	l, err := link.LoadPinnedLink(at.path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, identity{}, nil
	}
	if err != nil {
		return nil, identity{}, fmt.Errorf("open the pinned link %s: %w", at.path, err)
	}
	fail := func(err error) (link.Link, identity, error) {
		l.Close()
		return nil, identity{}, err
	}
	info, err := l.Info()
	if err != nil {
		return fail(fmt.Errorf("inspect the pinned link %s: %w", at.path, err))
	}
	if !at.alive(info) {
		if err := os.Remove(at.path); err != nil {
			return fail(fmt.Errorf("remove a stale pin: %w", err))
		}
		m.log.Debug("removed the marking of a place that is gone", "pin", at.path)
		return fail(nil)
	}
	who, err := m.identify(info.Program)
	if err != nil {
		return fail(err)
	}
	return l, who, nil
}

// read returns what the program of the link at a pin is; errNotOurs if there is none.
func (m *Marker) read(at pin) (identity, error) {
	l, who, err := m.open(at)
	if err != nil {
		return identity{}, err
	}
	if l == nil {
		return identity{}, errNotOurs
	}
	return who, l.Close()
}

// remove ends the link at a pin, if there is one.
func (m *Marker) remove(at pin) error {
	l, _, err := m.open(at)
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

// listPinned lists the ports whose links are pinned in a folder by their numbers.
// Named says which port and pin a number stands for; a port that is gone is
// dataplane.ErrNoDevice.
func (m *Marker) listPinned(folder string, named func(number uint64) (plan.Port, pin, error)) ([]plan.Port, error) {
	dir, err := m.conn.PinDir(m.opts, folder)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list what is marked: %w", err)
	}
	var ports []plan.Port
	for _, entry := range entries {
		number, err := strconv.ParseUint(entry.Name(), 10, 64)
		if err != nil {
			continue // not a pin of ours
		}
		port, at, gone := named(number)
		if gone != nil && !errors.Is(gone, dataplane.ErrNoDevice) {
			return nil, gone
		}
		l, who, err := m.open(at) // removes the pin of one that is gone
		if err != nil {
			return nil, err
		}
		if l == nil {
			continue
		}
		l.Close()
		if gone != nil {
			continue // this very moment
		}
		port.Class = who.class()
		ports = append(ports, port)
	}
	return ports, nil
}
