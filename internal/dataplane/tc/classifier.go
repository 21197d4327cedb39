// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"errors"
	"fmt"
	mathbits "math/bits"

	"github.com/cilium/ebpf"

	"weir/internal/dataplane"
	"weir/internal/dataplane/device"
)

const (
	classifierPriority = 1
	classifierHandle   = 1
)

// classifierName is what "tc filter show" prints, and how a restarted agent
// knows whether the mask is still the same.
func classifierName(mask uint32) string { return fmt.Sprintf("weir seal, mask %#08x", mask) }

// setClassifier attaches bpf/marking/classid.bpf.c to the root, or replaces the one that
// is there in one step.
func setClassifier(c *device.Conn, ifindex int, mask uint32) error {
	prog, err := loadClassifier(mask)
	if err != nil {
		return err
	}
	defer prog.Close()
	return c.SetFilter(device.Filter{
		Ifindex: ifindex, Parent: rootHandle, Priority: classifierPriority, Handle: classifierHandle,
		Name: classifierName(mask), ProgFD: prog.FD(),
	})
}

func hasClassifier(c *device.Conn, ifindex int, mask uint32) (bool, error) {
	filters, _, err := c.Filters(ifindex, rootHandle)
	if err != nil {
		return false, err
	}
	for _, f := range filters {
		if f.Handle == classifierHandle && f.Priority == classifierPriority && f.Name == classifierName(mask) {
			return true, nil
		}
	}
	return false, nil
}

func loadClassifier(mask uint32) (*ebpf.Program, error) {
	spec, err := loadClassid()
	if err != nil {
		return nil, err
	}
	constants := struct{ Mask, Shift, Major uint32 }{
		mask, uint32(mathbits.TrailingZeros32(mask)), rootHandle,
	}
	if err := spec.Variables[classidVarWeirClassid].Set(constants); err != nil {
		return nil, fmt.Errorf("set the mask of the classifier: %w", err)
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
