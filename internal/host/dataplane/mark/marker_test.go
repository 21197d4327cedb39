// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device/netnstest"
)

// The program itself, run by the kernel on a packet with a mark of another program.
func TestProgramSetsOnlyItsBits(t *testing.T) {
	netnstest.New(t) // skips without root
	for _, tt := range []struct{ mask, before, want uint32 }{
		{0, 0xdead4001, 0xdead4001},
		{0xffff0000, 0x00000001, 0x00030001},
		{0xffff0000, 0xdead4000, 0x00034000},
		{0x00fff000, 0xffffffff, 0xff003fff},
	} {
		prog := mustLoad(t, 3, plan.Carrier{Mask: plan.Mask(tt.mask)})
		defer prog.Close()
		context := make([]byte, 192) // struct __sk_buff, of which mark is at 8
		le32(context[8:], tt.before)
		out := make([]byte, 192)
		verdict, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, 64), Context: context, ContextOut: out})
		if err != nil {
			t.Fatal(err)
		}
		if got := uint32(out[8]) | uint32(out[9])<<8 | uint32(out[10])<<16 | uint32(out[11])<<24; got != tt.want {
			t.Errorf("mask %#x: mark %#x became %#x, want %#x", tt.mask, tt.before, got, tt.want)
		}
		if int32(verdict) != -1 {
			t.Errorf("verdict %d, want -1 (leave it to the next)", int32(verdict))
		}
	}
}

// mustLoad loads the program of a workload without rules.
func mustLoad(t *testing.T, class plan.ClassID, carrier plan.Carrier) *ebpf.Program {
	t.Helper()
	p, err := compile(ingress.program, class, carrier, Marking{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := p.load(ebpf.AttachTCXIngress, nil)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

func le32(into []byte, v uint32) {
	into[0], into[1], into[2], into[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
}

// ways runs a test with each way of attaching that this kernel has.
func ways(t *testing.T, test func(t *testing.T, host *netnstest.Netns, m *Marker)) {
	for _, way := range []string{"tcx", "clsact"} {
		t.Run(way, func(t *testing.T) {
			host := netnstest.Enter(t)
			m := newMarker(t, netnstest.Options(t), way)
			test(t, host, m)
		})
	}
}

func newMarker(t *testing.T, opts dataplane.Options, way string) *Marker {
	t.Helper()
	m, err := New(opts, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	switch {
	case way == "clsact":
		m.tcx = false
	case !m.tcx:
		t.Skip("skipped: this kernel has no tcx (Linux 6.6)")
	}
	return m
}

// addPort makes a veth named name in the test's namespace.
func addPort(t *testing.T, host *netnstest.Netns, m *Marker, name string) plan.Port {
	t.Helper()
	host.Run("ip", "link", "add", name, "type", "veth", "peer", "name", name+"p")
	host.Run("ip", "link", "set", name, "up")
	host.Run("ip", "link", "set", name+"p", "up")
	dev, err := m.conn.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Port{Device: name, Ifindex: dev.Index}
}

func wantPorts(t *testing.T, m *Marker, want ...plan.Port) {
	t.Helper()
	got, err := m.List()
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("ports %v, want %v", got, want)
	}
}

func TestAttachChangeAdoptDetach(t *testing.T) {
	ways(t, func(t *testing.T, host *netnstest.Netns, m *Marker) {
		a, b := addPort(t, host, m, "a0"), addPort(t, host, m, "b0")
		before := host.Run("tc", "qdisc", "show")
		a.Class, b.Class = 1, 4095
		for range 2 { // the second time there is nothing to do
			if err := errors.Join(m.Attach(a, Marking{}), m.Attach(b, Marking{})); err != nil {
				t.Fatal(err)
			}
			wantPorts(t, m, a, b)
		}
		a.Class = 7
		if err := m.Attach(a, Marking{}); err != nil {
			t.Fatal(err)
		}
		wantPorts(t, m, a, b)

		// Another agent adopts what this one left.
		way := "tcx"
		if !m.tcx {
			way = "clsact"
		}
		wantPorts(t, newMarker(t, m.opts, way), a, b)

		if err := errors.Join(m.Detach(a), m.Detach(a)); err != nil {
			t.Fatal(err)
		}
		wantPorts(t, m, b)
		if err := m.CleanupAll(); err != nil {
			t.Fatal(err)
		}
		wantPorts(t, m)
		if after := host.Run("tc", "qdisc", "show"); after != before {
			t.Errorf("qdiscs after cleanup:\n%s\nbefore:\n%s", after, before)
		}
	})
}

func TestDeviceGone(t *testing.T) {
	ways(t, func(t *testing.T, host *netnstest.Netns, m *Marker) {
		a := addPort(t, host, m, "a0")
		a.Class = 1
		if err := m.Attach(a, Marking{}); err != nil {
			t.Fatal(err)
		}
		host.Run("ip", "link", "del", "a0")
		wantPorts(t, m)
		if err := m.Detach(a); err != nil {
			t.Errorf("detach from a device that is gone: %v", err)
		}
		if err := m.Attach(a, Marking{}); !errors.Is(err, dataplane.ErrNoDevice) {
			t.Errorf("attach to a device that is gone: %v, want ErrNoDevice", err)
		}
		// The index is given to another device, as happens on hosts that run long.
		host.Run("ip", "link", "add", "c0", "index", fmt.Sprint(a.Ifindex), "type", "veth", "peer", "name", "c0p")
		c := plan.Port{Device: "c0", Ifindex: a.Ifindex, Class: 2}
		if err := m.Attach(c, Marking{}); err != nil {
			t.Fatal(err)
		}
		wantPorts(t, m, c)
		if left, _ := os.ReadDir(m.opts.StateDir); m.tcx && len(left) > 0 {
			t.Errorf("state left: %v", left)
		}
	})
}

// A foreign clsact and filter must be there afterwards as before.
func TestForeignFilterStays(t *testing.T) {
	ways(t, func(t *testing.T, host *netnstest.Netns, m *Marker) {
		a := addPort(t, host, m, "a0")
		host.Run("tc", "qdisc", "add", "dev", "a0", "clsact")
		host.Run("tc", "filter", "add", "dev", "a0", "ingress", "pref", "9", "u32", "match", "u32", "0", "0")
		before := host.Run("tc", "filter", "show", "dev", "a0", "ingress")
		a.Class = 3
		if err := errors.Join(m.Attach(a, Marking{}), m.Detach(a)); err != nil {
			t.Fatal(err)
		}
		if after := host.Run("tc", "filter", "show", "dev", "a0", "ingress"); after != before || after == "" {
			t.Errorf("filters after:\n%s\nbefore:\n%s", after, before)
		}
	})
}

// A foreign tcx program in the chain must stay, behind Weir's.
func TestForeignTCXStays(t *testing.T) {
	host := netnstest.Enter(t)
	m := newMarker(t, netnstest.Options(t), "tcx")
	a := addPort(t, host, m, "a0")
	theirs := mustLoad(t, 99, plan.Carrier{})
	defer theirs.Close()
	foreign, err := link.AttachTCX(link.TCXOptions{Interface: a.Ifindex, Program: theirs, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	a.Class = 3
	if err := m.Attach(a, Marking{}); err != nil {
		t.Fatal(err)
	}
	chain, err := link.QueryPrograms(link.QueryOptions{Target: a.Ifindex, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		t.Fatal(err)
	}
	if len(chain.Programs) != 2 {
		t.Fatalf("%d programs on the port, want 2", len(chain.Programs))
	}
	if c, err := identify(chain.Programs[0].ID); err != nil || c.class() != 3 {
		t.Errorf("first in the chain is class %d (%v), want Weir's 3", c.class(), err)
	}
	if err := m.CleanupAll(); err != nil {
		t.Fatal(err)
	}
	chain, err = link.QueryPrograms(link.QueryOptions{Target: a.Ifindex, Attach: ebpf.AttachTCXIngress})
	if err != nil || len(chain.Programs) != 1 {
		t.Errorf("after cleanup %d programs (%v), want the foreign one", len(chain.Programs), err)
	}
}

// A program that an earlier version has attached, whose constants were others, is listed with its
// class, and replaced.
func TestEarlierVersion(t *testing.T) {
	host := netnstest.Enter(t)
	m := newMarker(t, netnstest.Options(t), "tcx")
	a := addPort(t, host, m, "a0")
	a.Class = 3
	constants, err := ebpf.NewMap(&ebpf.MapSpec{Name: constantsMap, Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: []uint32{^uint32(plan.UsualMask), 3 << 16}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer constants.Close()
	early, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: programName, Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXIngress, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMapValue(asm.R2, constants.FD(), 0),
		asm.Mov.Imm(asm.R0, -1),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	l, err := link.AttachTCX(link.TCXOptions{Interface: a.Ifindex, Program: early, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at, err := tcx{m, ingress}.pinOf(a.Ifindex)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Pin(at.path); err != nil {
		t.Fatal(err)
	}
	wantPorts(t, m, a)
	before := programAt(t, m, ingress, a.Ifindex)
	if err := m.Attach(a, Marking{}); err != nil {
		t.Fatal(err)
	}
	now := programAt(t, m, ingress, a.Ifindex)
	if who, err := identify(now); err != nil || now == before || who.digest != uint64(plan.Carrier{}.Seal(3, 0)) {
		t.Errorf("program %d after %d, %+v, %v; want another one, with the seal of class 3", now, before, who, err)
	}
	wantPorts(t, m, a)
}

// 200 ports come and go: no program, pin or file descriptor stays.
func TestChurnLeavesNothing(t *testing.T) {
	ways(t, func(t *testing.T, host *netnstest.Netns, m *Marker) {
		m.carrier.Mask = 0x3ffc0000 // used by no other test
		files := countFiles(t)
		for round := range 10 {
			for i := range 20 {
				port := addPort(t, host, m, fmt.Sprintf("p%d", i))
				host.Run("ip", "link", "set", port.Device, "group", "7")
				port.Class = plan.ClassID(round*20 + i + 1)
				if err := m.Attach(port, Marking{}); err != nil {
					t.Fatal(err)
				}
			}
			if n := countPrograms(t, m.carrier.Mask); n < 20 {
				t.Fatalf("%d marking programs are seen, should be 20 at least", n)
			}
			host.Run("ip", "link", "del", "group", "7")
			wantPorts(t, m)
		}
		if now := countFiles(t); now != files {
			t.Errorf("%d open files, %d before", now, files)
		}
		awaitNoPrograms(t, m.carrier.Mask)
		pins, err := m.conn.PinDir(m.opts, ingress.folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{m.opts.StateDir, pins} {
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("%d entries left in %s, e.g. %s", len(left), dir, left[0].Name())
			}
		}
	})
}
