// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// The kernel sends no notice of a tcx program that another owner puts before Weir's. The agent asks
// each second: until it has gone first again, that program sees twice what goes into a workload.
func TestProgramBeforeWeirs(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configureLinks(fmt.Sprintf(", ingress: %dbit", b.capacity), "")
	a := b.start()
	b.steered(a)
	dev := b.host.device("w1").Attrs().Index
	order := func() (ids []ebpf.ProgramID) {
		b.host.must("list programs", b.host.do(func() error {
			all, err := link.QueryPrograms(link.QueryOptions{Target: dev, Attach: ebpf.AttachTCXEgress})
			if err == nil {
				for _, p := range all.Programs {
					ids = append(ids, p.ID)
				}
			}
			return err
		}))
		return ids
	}
	seen, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Close()
	theirs, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "theirs", Type: ebpf.SchedCLS, License: "GPL", AttachType: ebpf.AttachTCXEgress, Instructions: countingIPv4(seen)})
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	info, err := theirs.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	// pings sends some into the workload, and returns how many packets theirs has seen.
	const some = 10
	pings := func() uint64 {
		before := counted(t, seen)
		b.srv.run(fmt.Sprintf("ping -q -c %d -i 0.002 %s", some, workloadAt(0, 1).ip))
		return counted(t, seen) - before
	}
	twice := false
	for round := 0; round < 3 || round < 10 && !twice; round++ {
		var l link.Link
		b.host.must("attach a program", b.host.do(func() (err error) {
			l, err = link.AttachTCX(link.TCXOptions{Interface: dev, Program: theirs, Attach: ebpf.AttachTCXEgress, Anchor: link.Head()})
			return err
		}))
		if n := pings(); order()[0] == id { // it was so all the time
			if twice = true; n != 2*some {
				t.Errorf("theirs goes first, and sees %d of %d packets, want each twice", n, some)
			}
		}
		took := await(t, 2*time.Second, "Weir's program is first again", func() error {
			if ids := order(); len(ids) < 2 || ids[0] == id {
				return fmt.Errorf("programs %v, theirs %d", ids, id)
			}
			return nil
		})
		t.Logf("first again after %v", took)
		if n := pings(); n != some {
			t.Errorf("theirs sees %d of %d packets", n, some)
		}
		l.Close()
	}
	if !twice {
		t.Error("theirs never went first for as long as some packets take")
	}
}

// countingIPv4 counts packets of IPv4 in a map, and has the next program decide.
func countingIPv4(count *ebpf.Map) asm.Instructions {
	const protocol, ipv4 = 16, 0x0008 // of struct __sk_buff; in the network's order
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, protocol, asm.Word),
		asm.JNE.Imm(asm.R2, ipv4, "out"),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, count.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("out"), // TCX_NEXT
		asm.Return(),
	}
}

func counted(t *testing.T, count *ebpf.Map) (n uint64) {
	t.Helper()
	if err := count.Lookup(uint32(0), &n); err != nil {
		t.Fatal(err)
	}
	return n
}
