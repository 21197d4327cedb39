// SPDX-License-Identifier: Apache-2.0

package marktest

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// skbMark is where struct __sk_buff has the mark.
const skbMark = 8

// Overwrite has a program at a port assign the whole mark and let the packet go on, as Cilium's
// does, until the test ends. Weir's program goes before it, whichever was there first.
func Overwrite(t *testing.T, ifindex int, mark uint32) {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXIngress, License: "GPL", Instructions: asm.Instructions{
		asm.LoadImm(asm.R2, int64(mark), asm.DWord),
		asm.StoreMem(asm.R1, skbMark, asm.R2, asm.Word),
		asm.Mov.Imm(asm.R0, -1),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	l, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: prog, Attach: ebpf.AttachTCXIngress, Anchor: link.Tail()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}
