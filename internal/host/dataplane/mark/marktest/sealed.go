// SPDX-License-Identifier: Apache-2.0

package marktest

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

const (
	skbTCIndex = 44 // where struct __sk_buff has tc_index,
	skbCB      = 48 // and the first number of cb
)

// CB is where the context of a test run has what Sealed's program takes.
const CB = skbCB

// Sealed returns a program that runs another one on a packet with a tc_index, which the kernel's
// test run does not take: it is the first number of cb.
func Sealed(t testing.TB, prog *ebpf.Program, attach ebpf.AttachType) *ebpf.Program {
	t.Helper()
	next, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { next.Close() })
	if err := next.Put(uint32(0), prog); err != nil {
		t.Fatal(err)
	}
	first, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, AttachType: attach, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, skbCB, asm.Word),
		asm.StoreMem(asm.R1, skbTCIndex, asm.R2, asm.Word),
		asm.LoadMapPtr(asm.R2, next.FD()),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, -7),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Close() })
	return first
}
