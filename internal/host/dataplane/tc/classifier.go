// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

const (
	classifierPriority = 1
	classifierHandle   = 1
)

// classifierName is what "tc filter show" prints, and how a restarted agent
// knows whether the carrier is still the same.
func classifierName(c plan.Carrier) string {
	name := "weir seal"
	if c.Mask != 0 {
		name += fmt.Sprintf(", mask %#08x", uint32(c.Mask))
	}
	if c.Cilium {
		name += ", beside cilium"
	}
	return name
}

// setClassifier attaches bpf/marking/classid.bpf.c to the root, or replaces the one that
// is there in one step.
func setClassifier(c *device.Conn, ifindex int, carrier plan.Carrier) error {
	prog, err := loadClassifier(carrier)
	if err != nil {
		return err
	}
	defer prog.Close()
	return c.SetFilter(device.Filter{
		Ifindex: ifindex, Parent: rootHandle, Priority: classifierPriority, Handle: classifierHandle,
		Name: classifierName(carrier), ProgFD: prog.FD(),
	})
}

func hasClassifier(c *device.Conn, ifindex int, carrier plan.Carrier) (bool, error) {
	filters, _, err := c.Filters(ifindex, rootHandle)
	if err != nil {
		return false, err
	}
	for _, f := range filters {
		if f.Handle == classifierHandle && f.Priority == classifierPriority && f.Name == classifierName(carrier) {
			return true, nil
		}
	}
	return false, nil
}

func loadClassifier(carrier plan.Carrier) (*ebpf.Program, error) {
	spec, err := loadClassid()
	if err != nil {
		return nil, err
	}
	var in classidWeirCarrier
	in.More, in.Others, in.Classes, in.Shift, in.QueueShift = carrier.Where()
	err = errors.Join(spec.Variables[classidVarWeirIn].Set(in), spec.Variables[classidVarWeirMajor].Set(uint32(rootHandle)))
	if err != nil {
		return nil, fmt.Errorf("set the constants of the classifier: %w", err)
	}
	var loaded struct {
		Prog *ebpf.Program `ebpf:"weir_classify"`
	}
	if err := spec.LoadAndAssign(&loaded, nil); err != nil {
		if errors.Is(err, ebpf.ErrNotSupported) {
			return nil, fmt.Errorf("load the classifier: %w: %w", dataplane.ErrNoSupport, err)
		}
		return nil, device.Explain("load the classifier", err)
	}
	return loaded.Prog, nil
}
