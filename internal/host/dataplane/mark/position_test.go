// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/device/netnstest"
)

// ending attaches another owner's program at the head of a hook that lets packets pass and ends
// the chain, and returns its id.
func ending(t *testing.T, ifindex int, hook ebpf.AttachType) ebpf.ProgramID {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "theirs", Type: ebpf.SchedCLS, License: "GPL", AttachType: hook,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}, // TCX_PASS
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: prog, Attach: hook, Anchor: link.Head()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); prog.Close() })
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	return id
}

// programsAt returns the ids of the programs of a hook in their order.
func programsAt(t *testing.T, ifindex int, hook ebpf.AttachType) (ids []ebpf.ProgramID) {
	t.Helper()
	result, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: hook})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range result.Programs {
		ids = append(ids, p.ID)
	}
	return ids
}

// A program that another owner puts before Weir's at a port, and at a link, is named, and the next
// call puts Weir's first. Theirs stay, in their order, also when Weir's goes.
func TestProgramsGoFirst(t *testing.T) {
	host := netnstest.Enter(t)
	m := newMarker(t, netnstest.Options(t), "tcx")
	a := addPort(t, host, m, "a0")
	a.Class = 3
	dev := device.Device{Name: "a0", Index: a.Ifindex, Ethernet: true}
	state := plan.State{Classes: []plan.Class{{ID: 0}, {ID: 3}}, Ports: []plan.Port{a}}
	for _, place := range []struct {
		hook    ebpf.AttachType
		attach  func() error
		missing func() ([]string, error)
		detach  func() error
	}{
		{ebpf.AttachTCXIngress, func() error { return m.Attach(a, Marking{}) },
			func() ([]string, error) { return m.Missing(state) }, func() error { return m.Detach(a) }},
		{ebpf.AttachTCXEgress, func() error { return m.AttachLink(dev, state) },
			func() ([]string, error) { return m.MissingAtLink(dev, state, false) }, func() error { return m.DetachLink(dev) }},
	} {
		step := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%v: %s: %v", place.hook, what, err)
			}
		}
		last := ending(t, a.Ifindex, place.hook)
		step("attach", place.attach())
		for range 2 {
			first := ending(t, a.Ifindex, place.hook)
			said, err := place.missing()
			step("look", err)
			if len(said) != 1 || !strings.Contains(said[0], `"theirs"`) {
				t.Errorf("%v: %q does not name the program before Weir's", place.hook, said)
			}
			step("attach again", place.attach())
			if ids := programsAt(t, a.Ifindex, place.hook); ids[0] == first || ids[1] != first || ids[len(ids)-1] != last {
				t.Errorf("%v: programs %v, want Weir's, then %d, and %d last", place.hook, ids, first, last)
			}
			if said, err := place.missing(); err != nil || len(said) > 0 {
				t.Errorf("%v: missing %q, %v", place.hook, said, err)
			}
		}
		ours := programsAt(t, a.Ifindex, place.hook)
		step("detach", place.detach())
		if now := programsAt(t, a.Ifindex, place.hook); !slices.Equal(now, ours[1:]) {
			t.Errorf("%v: programs %v after Weir's is gone, want %v", place.hook, now, ours[1:])
		}
	}
}

// Where another program has added an ingress qdisc to a port of a kernel without tcx, the filter on
// what goes into the workload is refused: the kernel would put it at the ingress.
func TestIngressQdiscIsNoClsact(t *testing.T) {
	host := netnstest.Enter(t)
	opts := netnstest.Options(t)
	opts.Inward = &dataplane.Inward{IFB: 1}
	m := newMarker(t, opts, "clsact")
	a := addPort(t, host, m, "a0")
	host.Run("tc", "qdisc", "add", "dev", "a0", "ingress")
	before := host.Run("tc", "filter", "show", "dev", "a0", "parent", "ffff:")
	err := m.Attach(a, Marking{})
	if !errors.Is(err, dataplane.ErrForeignQdisc) || !strings.Contains(err.Error(), "a0") {
		t.Errorf("attach: %v", err)
	}
	if after := host.Run("tc", "filter", "show", "dev", "a0", "parent", "ffff:"); after != before {
		t.Errorf("filters at the ingress: %s", after)
	}
}
