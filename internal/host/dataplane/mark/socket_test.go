// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/group"
	"weir/internal/host/dataplane/mark/marktest"
)

func TestMain(m *testing.M) {
	marktest.Sender()
	os.Exit(m.Run())
}

// Whatever mark a socket sets, and whatever way it takes to the link, its packets are
// of the class of the cgroup that it was made in, or of the port that they came by.
func TestSocketsDoNotChooseTheirClass(t *testing.T) {
	for _, mask := range []plan.Mask{0, plan.UsualMask} {
		host := netnstest.Enter(t)
		m := newMarker(t, netnstest.Options(t), "tcx") // where a witness can stand behind Weir's program
		m.carrier.Mask = mask
		b := marktest.New(t, host)
		for _, port := range b.State().Ports {
			if err := m.Attach(port, Marking{}); err != nil {
				t.Fatal(err)
			}
		}
		up, err := m.conn.Lookup(marktest.Uplink)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.AttachLink(up, b.State()); err != nil {
			t.Fatal(err)
		}
		seen := witness(t, up.Index, ebpf.AttachTCXEgress, onlyTransport...)
		tcIndex := witnessOf(t, skbTCIndex, up.Index, ebpf.AttachTCXEgress, onlyTransport...)
		for _, try := range b.Tries(t) {
			b.Send(t, try)
			want := try.Mark
			if mask == 0 {
				want = try.Untouched()
			}
			if got := seen(); got != want {
				t.Errorf("mask %#x, %s: mark %#x, want %#x", uint32(mask), try.Name, got, want)
			}
			if got, _ := m.carrier.Split(tcIndex(), seen()); got != try.Class() {
				t.Errorf("mask %#x, %s: class %d, want %d (tc_index %#x)", uint32(mask), try.Name, got, try.Class(), tcIndex())
			}
		}
	}
}

// A priority by which HTB would find one of Weir's classes is taken off wherever HTB may be
// next: at a link, and before the IFBs of a link's ingress and of a zone. Others stay.
func TestPriorityNamesNoClass(t *testing.T) {
	netnstest.New(t) // skips without root
	for name, prog := range map[string]*ebpf.Program{
		"link":    loadAs(t, classifyProgWeirRulesLink, 0, plan.Carrier{}, Marking{}),
		"ingress": zoneProgram(t, classifyProgWeirRulesIn, nil),
		"zone":    zoneProgram(t, classifyProgWeirRulesZone, nil),
	} {
		for before, want := range map[uint32]uint32{
			device.HandleMajor << 16: 0, device.HandleMajor<<16 | 7: 0, device.HandleMajor<<16 | 0xffff: 0,
			0: 0, 6: 6, 0x10002: 0x10002, (device.HandleMajor + 1) << 16: (device.HandleMajor + 1) << 16,
		} {
			context, back := make([]byte, skbSize), make([]byte, skbSize)
			binary.NativeEndian.PutUint32(context[skbPriority:], before)
			binary.NativeEndian.PutUint32(context[skbIngress:], 2)
			if _, err := prog.Run(&ebpf.RunOptions{Data: packet4(17), Context: context, ContextOut: back}); err != nil {
				t.Fatal(err)
			}
			if got := binary.NativeEndian.Uint32(back[skbPriority:]); got != want {
				t.Errorf("%s: priority %#x has become %#x, want %#x", name, before, got, want)
			}
		}
	}
}

func cgroupID(t *testing.T, path string) uint64 {
	t.Helper()
	folder, err := group.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	return folder.ID
}
