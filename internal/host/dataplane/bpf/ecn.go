// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/core/plan"
)

// cePin is the link by which the program that marks is attached.
const cePin = "mark_ce_link"

// marksCE reports whether a class of the state asks for marks.
func marksCE(s plan.State) bool {
	return slices.ContainsFunc(s.Classes, func(c plan.Class) bool { return ceAbove(c.AQM) != 0 && !c.Group })
}

// markCE attaches the program that marks packets (bpf/ecn.h) to the link's egress, where
// a class asks for that; elsewhere it takes the program off, which costs each packet some
// instructions. It runs after programs that set the class.
func (b *Backend) markCE(want plan.State) error {
	l, err := b.ceLink()
	if err != nil {
		return err
	}
	if l != nil {
		defer l.Close()
	}
	switch {
	case marksCE(want) == (l != nil):
		return nil
	case l != nil:
		return errors.Join(l.Detach(), l.Unpin())
	}
	dir, err := b.pins()
	if err != nil {
		return err
	}
	l, err = link.AttachTCX(link.TCXOptions{
		Interface: b.dev.Index, Program: b.obj.marks, Attach: ebpf.AttachTCXEgress, Anchor: link.Tail(),
	})
	if err != nil {
		return fmt.Errorf("attach the program that marks packets to %s: %w", b.device, err)
	}
	defer l.Close() // the pin keeps it
	if err := l.Pin(filepath.Join(dir, cePin)); err != nil {
		return fmt.Errorf("pin the program that marks packets of %s: %w", b.device, err)
	}
	return nil
}

// ceLink opens the link by which the program is attached; nil if it is not. The pin of one
// that another program detached is removed.
func (b *Backend) ceLink() (link.Link, error) {
	dir, err := b.pins()
	if err != nil {
		return nil, err
	}
	l, err := link.LoadPinnedLink(filepath.Join(dir, cePin), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the program that marks packets of %s: %w", b.device, err)
	}
	info, err := l.Info()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("inspect the program that marks packets of %s: %w", b.device, err), l.Close())
	}
	if at := info.TCX(); at == nil || int(at.Ifindex) != b.dev.Index {
		return nil, errors.Join(l.Unpin(), l.Close())
	}
	return l, nil
}

// missingCE says whether the program that marks is gone from the link.
func (b *Backend) missingCE() ([]string, error) {
	if !marksCE(b.have) {
		return nil, nil
	}
	l, err := b.ceLink()
	if err != nil || l == nil {
		return []string{"the program that marks packets (ECN) is gone"}, err
	}
	return nil, l.Close()
}
