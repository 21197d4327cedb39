// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

// redirect attaches to what goes into a workload: a cls_bpf filter at the egress
// of its port, whose action carries what the program takes to the IFB. tcx cannot
// do that: the IFB sends a packet on by the device that it was taken from, and of
// the two only the action writes that down in the packet. Where there is tcx, it has a
// pair in the IFB's place (pair.go).
type redirect struct{ *Marker }

func (r redirect) filterAt(ifindex int) device.Filter { return r.filterTo(ifindex, r.opts.Inward.IFB) }

// filterTo returns the filter at a device's egress that carries to an IFB. Its handle has the
// IFB's index: one port may have filters for the IFBs of several links.
func (r redirect) filterTo(ifindex, ifb int) device.Filter {
	return device.Filter{
		Ifindex: ifindex, Parent: inward.parent,
		Priority: filterPriority, Handle: filterHandle<<16 | uint32(ifb)&0xffff, Redirect: ifb,
	}
}

func (r redirect) read(ifindex int) (identity, error) { return r.readFilter(r.filterAt(ifindex)) }

func (r redirect) attach(ifindex int, name string, want program) error {
	return r.setFilter(r.filterAt(ifindex), name, want)
}

func (r redirect) detach(ifindex int) error { return r.deleteFilter(r.filterAt(ifindex)) }

// prune takes the filters off that carry packets to an IFB that is gone, where the kernel drops
// them.
func (r redirect) prune() error {
	if r.opts.Inward == nil || r.opts.Inward.Back != 0 || r.opts.Inward.IFB>>16 != 0 {
		return nil // with such an index a handle does not tell IFBs apart
	}
	devices, err := r.conn.Clsacts()
	for _, ifindex := range devices {
		filters, _, failed := r.conn.Filters(ifindex, inward.parent)
		err = errors.Join(err, failed)
		for _, f := range filters {
			if f.Handle>>16 != filterHandle {
				continue
			}
			if _, gone := r.conn.LookupIndex(int(f.Handle & 0xffff)); errors.Is(gone, dataplane.ErrNoDevice) {
				err = errors.Join(err, r.conn.DeleteFilter(f))
			}
		}
	}
	return err
}

func (r redirect) list() ([]plan.Port, error) { return r.listBy(r.read) }

// redirect says where the program's packets go, and which ones.
func (p *program) redirect(to dataplane.Inward) {
	p.in = classifyWeirInward{Ifb: uint32(to.IFB), Back: uint32(to.Back)}
	if to.Local {
		p.in.Local = 1
	}
	for i, index := range to.Sources[:min(len(to.Sources), len(p.in.Sources))] {
		p.in.Sources[i] = uint32(index)
	}
	for _, dscp := range p.place.Dscp {
		if dscp != keepDSCP {
			p.in.Rewrites = 1
		}
	}
	p.area = to.Area
	p.place.Digest = p.digest()
}
