// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"

	"weir/internal/dataplane"
	"weir/internal/dataplane/device"
	"weir/internal/plan"
)

// constants are the variables of mark.bpf.c, as they lie in .rodata.
type constants struct {
	Keep  uint32
	Value uint32
}

// programName is the function in mark.bpf.c, and by it List knows its own.
const programName = markProgWeirMarkPort

// load makes a marking program for one class. It is loaded once per port: with
// the constants in it there is nothing to look up when a packet comes.
func load(class plan.ClassID, mask uint32, attach ebpf.AttachType) (*ebpf.Program, error) {
	spec, err := loadMark()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables[markVarWeirMark].Set(constants{Keep: ^mask, Value: Value(class, mask)}); err != nil {
		return nil, fmt.Errorf("set the class of the marking program: %w", err)
	}
	spec.Programs[programName].AttachType = attach
	var loaded struct {
		Prog *ebpf.Program `ebpf:"weir_mark_port"`
	}
	if err := spec.LoadAndAssign(&loaded, nil); err != nil {
		if errors.Is(err, ebpf.ErrNotSupported) {
			return nil, fmt.Errorf("load the marking program: %w: %w", dataplane.ErrNoSupport, err)
		}
		return nil, device.Explain("load the marking program", err)
	}
	return loaded.Prog, nil
}

// errNotOurs says that a program is not Weir's marking program.
var errNotOurs = errors.New("not a marking program of Weir")

// readConstants reads the constants back from a loaded program.
func readConstants(id ebpf.ProgramID) (constants, error) {
	var c constants
	prog, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return c, fmt.Errorf("open BPF program %d: %w", id, err)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		return c, fmt.Errorf("inspect BPF program %d: %w", id, err)
	}
	maps, _ := info.MapIDs()
	if info.Name != programName || len(maps) != 1 {
		return c, errNotOurs
	}
	rodata, err := ebpf.NewMapFromID(maps[0])
	if err != nil {
		return c, fmt.Errorf("open the constants of BPF program %d: %w", id, err)
	}
	defer rodata.Close()
	if err := rodata.Lookup(uint32(0), &c); err != nil {
		return c, fmt.Errorf("read the constants of BPF program %d: %w", id, err)
	}
	return c, nil
}

// class is the class number that the constants stand for.
func (c constants) class() plan.ClassID {
	return plan.ClassID(c.Value >> bits.TrailingZeros32(^c.Keep))
}
