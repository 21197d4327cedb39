// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

// clsact attaches by cls_bpf filters, for kernels before 6.6.
type clsact struct {
	*Marker
	hook hook
}

const (
	filterPriority = 1 // first, as with tcx
	filterHandle   = device.HandleMajor
)

func (a clsact) filterAt(ifindex int) device.Filter {
	return device.Filter{
		Ifindex: ifindex, Parent: a.hook.parent,
		Priority: filterPriority, Handle: filterHandle + a.hook.handle, Direct: true,
	}
}

// added remembers that Weir added clsact to a device. The kernel cannot tell.
type added struct {
	Ifindex int    `json:"ifindex"`
	Device  string `json:"device"`
}

func (m *Marker) memory(ifindex int) string {
	return filepath.Join(device.StateDir(m.opts), fmt.Sprintf("clsact-%d.json", ifindex))
}

func (a clsact) attach(ifindex int, name string, want program) error {
	return a.setFilter(a.filterAt(ifindex), name, want)
}

// setFilter brings a program into the filter at `at`, on the device called `name`,
// unless it is there already.
func (m *Marker) setFilter(at device.Filter, name string, want program) error {
	present, err := m.readFilter(at)
	if err == nil && present == want.identity() {
		return nil
	}
	if err != nil && !errors.Is(err, errNotOurs) {
		return err
	}
	prog, err := want.load(ebpf.AttachNone, m.notes.Askers)
	if err != nil {
		return err
	}
	defer prog.Close()
	if err := m.addClsact(at, name); err != nil {
		return err
	}
	at.Name = fmt.Sprintf("weir class %d", want.identity().class())
	if at.Redirect != 0 {
		at.Name += " in"
	}
	at.ProgFD = prog.FD()
	return m.conn.SetFilter(at)
}

// deleteFilter takes the filter at `at` off, and clsact with the last one.
func (m *Marker) deleteFilter(at device.Filter) error {
	_, err := m.readFilter(at)
	if err == nil {
		err = m.conn.DeleteFilter(at)
	}
	if err != nil && !errors.Is(err, errNotOurs) {
		return err
	}
	return m.forget(at.Ifindex)
}

// addClsact gives a device clsact, and remembers that it was Weir.
func (m *Marker) addClsact(at device.Filter, name string) error {
	made, err := m.conn.AddClsact(at.Ifindex, at.Parent)
	if err != nil || !made {
		return err
	}
	if err := device.Remember(m.memory(at.Ifindex), added{at.Ifindex, name}); err != nil {
		return errors.Join(err, m.conn.DeleteClsact(at.Ifindex))
	}
	return nil
}

// read returns what the filter on a device is; errNotOurs if it has none.
func (a clsact) read(ifindex int) (identity, error) {
	return a.readFilter(a.filterAt(ifindex))
}

func (m *Marker) readFilter(at device.Filter) (identity, error) {
	filters, _, err := m.conn.Filters(at.Ifindex, at.Parent)
	if err != nil {
		return identity{}, err
	}
	for _, f := range filters {
		if f.Handle == at.Handle && f.Priority == at.Priority {
			return m.identify(ebpf.ProgramID(f.ProgID))
		}
	}
	return identity{}, errNotOurs
}

// filtered says whether a filter of Weir's is left on a device.
func filtered(conn *device.Conn, ifindex int) (bool, error) {
	for _, parent := range []uint32{device.ClsactIngress, device.ClsactEgress} {
		filters, _, err := conn.Filters(ifindex, parent)
		if err != nil {
			return false, err
		}
		for _, f := range filters {
			if (f.Priority == filterPriority || f.Priority == zonePriority) && (f.Handle == filterHandle || f.Handle == filterHandle+above.handle || f.Handle>>16 == filterHandle) {
				return true, nil
			}
		}
	}
	return false, nil
}

func (a clsact) detach(ifindex int) error { return a.deleteFilter(a.filterAt(ifindex)) }

// forget removes clsact where Weir added it, and the memory of having done so,
// once no filter of Weir's is there.
func (m *Marker) forget(ifindex int) error {
	if used, err := filtered(m.conn, ifindex); used || err != nil {
		return err
	}
	var was added
	err := device.Recall(m.memory(ifindex), &was)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	dev, err := m.conn.LookupIndex(ifindex)
	switch {
	case errors.Is(err, dataplane.ErrNoDevice):
	case err != nil:
		return err
	case dev.Name == was.Device: // otherwise the index belongs to another device by now
		if err := m.conn.DeleteClsact(ifindex); err != nil {
			return err
		}
	}
	return os.Remove(m.memory(ifindex))
}

func (a clsact) list() ([]plan.Port, error) { return a.listBy(a.read) }

// listBy lists the ports whose filter read finds.
func (m *Marker) listBy(read func(ifindex int) (identity, error)) ([]plan.Port, error) {
	m.prune()
	devices, err := m.conn.Clsacts()
	if err != nil {
		return nil, err
	}
	var ports []plan.Port
	for _, ifindex := range devices {
		who, err := read(ifindex)
		if errors.Is(err, errNotOurs) {
			continue
		}
		if err != nil {
			return nil, err
		}
		dev, err := m.conn.LookupIndex(ifindex)
		if errors.Is(err, dataplane.ErrNoDevice) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ports = append(ports, plan.Port{Device: dev.Name, Ifindex: ifindex, Class: who.class()})
	}
	return ports, nil
}

// prune forgets devices that are gone; the kernel has removed their filters.
func (m *Marker) prune() {
	paths, _ := filepath.Glob(filepath.Join(device.StateDir(m.opts), "clsact-*.json"))
	for _, path := range paths {
		var was added
		if err := device.Recall(path, &was); err != nil {
			m.log.Warn("cannot read what was added to a device", "err", err)
			continue
		}
		if _, err := m.conn.LookupIndex(was.Ifindex); errors.Is(err, dataplane.ErrNoDevice) {
			_ = os.Remove(path)
		}
	}
}
