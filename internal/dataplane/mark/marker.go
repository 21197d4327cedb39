// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/dataplane"
	"weir/internal/dataplane/device"
	"weir/internal/plan"
)

// DefaultMask are the bits of skb->mark that carry the class if Options.MarkMask
// is 0. The lower 16 are left to others (kube-proxy uses 0x4000 and 0x8000).
const DefaultMask = 0xffff0000

// Marker attaches and detaches marking programs in the network namespace in
// which it was made. Its methods may be called from several goroutines, but the
// kernel looks for devices in the namespace of the calling thread.
type Marker struct {
	mu   sync.Mutex
	conn *device.Conn
	opts dataplane.Options
	mask uint32
	pins string // folder of pinned tcx links; "" = this kernel has no tcx
	log  *slog.Logger
}

// attachment is one way of attaching.
type attachment interface {
	attach(port plan.Port) error
	detach(ifindex int) error
	list() ([]plan.Port, error)
}

// New prepares for marking. The error wraps dataplane.ErrPrivilege if the
// process may not do it.
func New(opts dataplane.Options, log *slog.Logger) (*Marker, error) {
	if err := CheckMask(maskOf(opts)); err != nil {
		return nil, err
	}
	conn, err := device.Open()
	if err != nil {
		return nil, err
	}
	m := &Marker{conn: conn, opts: opts, mask: maskOf(opts), log: log}
	if haveTCX() {
		if m.pins, err = conn.PinDir(opts, "ports"); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return m, nil
}

func maskOf(opts dataplane.Options) uint32 {
	return cmp.Or(opts.MarkMask, DefaultMask)
}

// CheckMask refuses a mask that cannot carry every class number: it must be one
// run of bits, wide enough for plan.MaxClasses.
func CheckMask(mask uint32) error {
	width := bits.OnesCount32(mask)
	if bits.LeadingZeros32(mask)+width+bits.TrailingZeros32(mask) != 32 {
		return fmt.Errorf("mark mask %#x: its bits must be next to each other, as in %#x", mask, uint32(DefaultMask))
	}
	if 1<<width < plan.MaxClasses {
		return fmt.Errorf("mark mask %#x: %d bits are too few for %d classes; give it at least %d, as in %#x",
			mask, width, plan.MaxClasses, bits.Len(plan.MaxClasses-1), uint32(DefaultMask))
	}
	return nil
}

// Value is the class number at its place in the mask.
func Value(class plan.ClassID, mask uint32) uint32 {
	return uint32(class) << bits.TrailingZeros32(mask) & mask
}

// way is how this kernel attaches.
func (m *Marker) way() attachment {
	if m.pins != "" {
		return tcx{m}
	}
	return clsact{m}
}

// Attach makes packets that come in by port.Ifindex carry port.Class. It may be
// called again with the same or another class. The error wraps
// dataplane.ErrNoDevice if the device is gone.
func (m *Marker) Attach(port plan.Port) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.way().attach(port); err != nil {
		return device.Explain(fmt.Sprintf("mark packets of %s (device %d) with class %d", port.Device, port.Ifindex, port.Class), err)
	}
	return nil
}

// Detach stops marking on a device. It is no error if nothing marks there, or if
// the device is gone.
func (m *Marker) Detach(ifindex int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.way().detach(ifindex); err != nil {
		return device.Explain(fmt.Sprintf("stop marking packets of device %d", ifindex), err)
	}
	return nil
}

// List reads from the kernel which ports are marked with which class, ordered by
// index. What is left of devices that are gone is removed on the way.
func (m *Marker) List() ([]plan.Port, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ports, err := m.way().list()
	slices.SortFunc(ports, func(a, b plan.Port) int { return cmp.Compare(a.Ifindex, b.Ifindex) })
	return ports, err
}

// CleanupAll stops marking everywhere and removes the folder of pins.
func (m *Marker) CleanupAll() error {
	ports, err := m.List()
	if err != nil {
		return err
	}
	var failed error
	for _, port := range ports {
		failed = errors.Join(failed, m.Detach(port.Ifindex))
	}
	if m.pins != "" {
		device.RemovePinDir(m.pins)
	}
	return failed
}

// Close lets go of the socket. What is attached stays attached.
func (m *Marker) Close() error { return m.conn.Close() }

// haveTCX asks the kernel for tcx by attaching a program that does nothing to a
// device that cannot exist: a kernel that knows tcx misses the device, an older
// one does not understand the question.
var haveTCX = sync.OnceValue(func() bool {
	prog, err := load(0, DefaultMask, ebpf.AttachTCXIngress)
	if err != nil {
		return false
	}
	defer prog.Close()
	l, err := link.AttachTCX(link.TCXOptions{
		Interface: 1<<31 - 1, Program: prog, Attach: ebpf.AttachTCXIngress,
	})
	if err == nil {
		l.Close()
	}
	return !errors.Is(err, ebpf.ErrNotSupported)
})
