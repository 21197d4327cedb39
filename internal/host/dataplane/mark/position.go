// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// The programs of a tcx hook run in turn until one ends the chain (TCX_PASS, a drop, a redirect).
// So what stands before Weir's program decides whether Weir sees a packet. Weir's go first, and
// leave the verdict to those behind. The kernel sends no notice of a program that another one puts
// before: the agent looks, and takes the head again.
//
//	attached later at the head:  [theirs] [weir_mark_port]
//	within two seconds:          [weir_mark_port] [theirs]

// preceded says that another owner's program runs before Weir's.
type preceded struct{ program string }

func (p preceded) Error() string {
	return fmt.Sprintf("the program %q runs before Weir's", p.program)
}

// first returns preceded if a program of another owner runs before the program own at a device.
func (t tcx) first(ifindex int, own ebpf.ProgramID) error {
	name, err := t.names.Before(ifindex, t.hook.attach, own)
	if err == nil && name != "" {
		return preceded{name}
	}
	return err
}

// anchor is where a program is attached: first, but for that of a zone, which the link's goes
// before as long as it is first itself.
func (t tcx) anchor(ifindex int) (link.Anchor, error) {
	if t.hook.program != classifyProgWeirRulesArea {
		return link.Head(), nil
	}
	at, err := tcx{t.Marker, egress}.pinOf(ifindex)
	if err != nil {
		return nil, err
	}
	l, _, err := t.open(at)
	if l == nil || err != nil {
		return link.Head(), err
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return nil, err
	}
	if err := t.first(ifindex, info.Program); errors.As(err, new(preceded)) {
		return link.Head(), nil
	} else if err != nil {
		return nil, err
	}
	return link.AfterLinkByID(info.ID), nil
}

// crowded reports whether another owner has a program at the hook of a device.
func (t tcx) crowded(ifindex int) (bool, error) {
	name, err := t.names.Before(ifindex, t.hook.attach, 0)
	return name != "", err
}

// lead has the program at a pin, which another one precedes, go first again. The new link is there
// before the old one goes, so no packet passes without a program.
func (t tcx) lead(at pin, want program, fresh func(*ebpf.Program) (link.Link, error)) error {
	old, _, err := t.open(at)
	if err != nil || old == nil {
		return err
	}
	defer old.Close()
	want.running = nil // a program is attached once at a hook
	prog, err := want.load(t.hook.attach, t.notes.Askers)
	if err != nil {
		return err
	}
	defer prog.Close()
	l, err := fresh(prog)
	if err != nil {
		return err
	}
	defer l.Close() // without a pin this detaches
	if err := errors.Join(old.Unpin(), old.Detach()); err != nil {
		return err
	}
	return l.Pin(at.path)
}
