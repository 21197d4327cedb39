// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"weir/internal/host/dataplane/device/netnstest"
)

// TestXDP: a link of XDP is found once.
func TestXDP(t *testing.T) {
	netnstest.Enter(t)
	theirs, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	var x XDP
	x.Linked()
	at, err := link.AttachXDP(link.XDPOptions{Interface: 1, Program: theirs, Flags: link.XDPGenericMode})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	if !x.Linked() {
		t.Error("is not found")
	}
	if x.Linked() {
		t.Error("is found again")
	}
}
