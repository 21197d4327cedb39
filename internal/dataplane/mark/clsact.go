// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"

	"weir/internal/dataplane"
	"weir/internal/dataplane/device"
	"weir/internal/plan"
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
		Priority: filterPriority, Handle: filterHandle, Direct: true,
	}
}

// added remembers that Weir added clsact to a device. The kernel cannot tell.
type added struct {
	Ifindex int    `json:"ifindex"`
	Device  string `json:"device"`
}

func (a clsact) memory(ifindex int) string {
	return filepath.Join(device.StateDir(a.opts), fmt.Sprintf("clsact-%d.json", ifindex))
}

func (a clsact) attach(ifindex int, name string, want program) error {
	present, err := a.read(ifindex)
	if err == nil && present == want.identity() {
		return nil
	}
	if err != nil && !errors.Is(err, errNotOurs) {
		return err
	}
	prog, err := want.load(ebpf.AttachNone)
	if err != nil {
		return err
	}
	defer prog.Close()
	made, err := a.conn.AddClsact(ifindex)
	if err != nil {
		return err
	}
	if made {
		if err := device.Remember(a.memory(ifindex), added{ifindex, name}); err != nil {
			return errors.Join(err, a.conn.DeleteClsact(ifindex))
		}
	}
	filter := a.filterAt(ifindex)
	filter.Name = fmt.Sprintf("weir class %d", want.identity().class())
	filter.ProgFD = prog.FD()
	return a.conn.SetFilter(filter)
}

// read returns what the filter on a device is; errNotOurs if it has none.
func (a clsact) read(ifindex int) (identity, error) {
	filters, _, err := a.conn.Filters(ifindex, a.hook.parent)
	if err != nil {
		return identity{}, err
	}
	for _, f := range filters {
		if f.Handle == filterHandle && f.Priority == filterPriority {
			return identify(ebpf.ProgramID(f.ProgID))
		}
	}
	return identity{}, errNotOurs
}

func (a clsact) detach(ifindex int) error {
	_, err := a.read(ifindex)
	if errors.Is(err, errNotOurs) {
		return a.forget(ifindex)
	}
	if err != nil {
		return err
	}
	if err := a.conn.DeleteFilter(a.filterAt(ifindex)); err != nil {
		return err
	}
	return a.forget(ifindex)
}

// forget removes clsact where Weir added it, and the memory of having done so,
// once neither hook is in use.
func (a clsact) forget(ifindex int) error {
	for _, h := range []hook{ingress, egress} {
		if _, err := (clsact{a.Marker, h}).read(ifindex); !errors.Is(err, errNotOurs) {
			return err
		}
	}
	var m added
	err := device.Recall(a.memory(ifindex), &m)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	dev, err := a.conn.LookupIndex(ifindex)
	switch {
	case errors.Is(err, dataplane.ErrNoDevice):
	case err != nil:
		return err
	case dev.Name == m.Device: // otherwise the index belongs to another device by now
		if err := a.conn.DeleteClsact(ifindex); err != nil {
			return err
		}
	}
	return os.Remove(a.memory(ifindex))
}

func (a clsact) list() ([]plan.Port, error) {
	a.prune()
	devices, err := a.conn.Clsacts()
	if err != nil {
		return nil, err
	}
	var ports []plan.Port
	for _, ifindex := range devices {
		who, err := a.read(ifindex)
		if errors.Is(err, errNotOurs) {
			continue
		}
		if err != nil {
			return nil, err
		}
		dev, err := a.conn.LookupIndex(ifindex)
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
func (a clsact) prune() {
	paths, _ := filepath.Glob(filepath.Join(device.StateDir(a.opts), "clsact-*.json"))
	for _, path := range paths {
		var m added
		if err := device.Recall(path, &m); err != nil {
			a.log.Warn("cannot read what was added to a device", "err", err)
			continue
		}
		if _, err := a.conn.LookupIndex(m.Ifindex); errors.Is(err, dataplane.ErrNoDevice) {
			_ = os.Remove(path)
		}
	}
}
