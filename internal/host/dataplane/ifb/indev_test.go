// SPDX-License-Identifier: Apache-2.0

package ifb

import (
	"net"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device"
)

// A program of another owner that asks by which device a packet came (ingress_ifindex, which the
// option indev of tc's filters compares, too) sees the second end of the pair where Weir has had
// the packet wait: at the port for what comes in, at the link for what leaves for a zone with a
// capacity. Of all other packets it sees what it sees without Weir.
func TestDeviceThatOthersSee(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		b, _ := zoned(t, kind)
		atLink, atPort := b.asks("up0"), b.asks("c1")
		rest, area := []string{"ping", "-q", "-c", "3", "-i", "0.01", "10.77.0.254"}, []string{"ping", "-q", "-c", "3", "-i", "0.01", wanAt}
		for _, c := range []struct {
			when         string
			begin        func()
			toRest, toIt string // by which device they came to the link
			in           string // to the port
		}{
			{"without Weir's pairs", func() {}, "c1", "c1", "up0"},
			{"with a zone", func() { b.Set(b.behind(wan()), b.inZone()) }, "c1", device.IFB{Link: "up0", Zone: "wan"}.Back(), "up0"},
			{"with a zone and ingress", func() { b.Set(b.backend(false), b.state(100*mbit, plan.Class{Weight: 1}, plan.Class{Weight: 1})) },
				"c1", device.IFB{Link: "up0", Zone: "wan"}.Back(), device.IFB{Link: "up0", Ingress: true}.Back()},
		} {
			c.begin()
			b.Boxes[0].Run(rest...)
			b.came(c.when+", to the rest", atLink, c.toRest)
			b.came(c.when+", from the rest", atPort, c.in)
			b.Boxes[0].Run(area...)
			b.came(c.when+", to the zone", atLink, c.toIt)
		}
	})
}

// asks attaches a program behind all others at the egress of a device that notes by which device
// the last packet of IPv4 came.
func (b *bed) asks(name string) *ebpf.Map {
	b.T.Helper()
	came, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		b.T.Fatal(err)
	}
	const protocol, ingressIfindex, ipv4 = 16, 36, 0x0008 // of struct __sk_buff; in the network's order
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "theirs", Type: ebpf.SchedCLS, License: "GPL", AttachType: ebpf.AttachTCXEgress, Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, protocol, asm.Word),
		asm.JNE.Imm(asm.R2, ipv4, "out"),
		asm.LoadMem(asm.R7, asm.R1, ingressIfindex, asm.Word),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, came.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.StoreMem(asm.R0, 0, asm.R7, asm.Word),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("out"), // TCX_NEXT
		asm.Return(),
	}})
	if err != nil {
		b.T.Fatal(err)
	}
	defer prog.Close()
	dev, err := net.InterfaceByName(name)
	if err != nil {
		b.T.Fatal(err)
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: dev.Index, Program: prog, Attach: ebpf.AttachTCXEgress, Anchor: link.Tail()})
	if err != nil {
		b.T.Skipf("skipped: this kernel has no tcx: %v", err)
	}
	b.T.Cleanup(func() { l.Close(); came.Close() })
	return came
}

// came checks by which device the last packet came.
func (b *bed) came(what string, at *ebpf.Map, want string) {
	b.T.Helper()
	var index uint32
	if err := at.Lookup(uint32(0), &index); err != nil {
		b.T.Fatal(err)
	}
	if dev, err := net.InterfaceByIndex(int(index)); err != nil || dev.Name != want {
		b.T.Errorf("%s: the packet came by %v (%d, %v), want %s", what, dev, index, err, want)
	}
}
