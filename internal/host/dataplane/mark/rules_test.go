// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/core/invalid"
	"weir/internal/core/plan"
	"weir/internal/core/policy/classify"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/marktest"
)

// marking makes queues of texts: the matches of each, "" for the default queue.
func marking(t testing.TB, matches ...string) Marking {
	t.Helper()
	var m Marking
	for i, text := range matches {
		q := plan.Queue{Name: fmt.Sprint("q", i)}
		if text != "" {
			var err error
			if q.Match, err = classify.ParseMatches(text); err != nil {
				t.Fatal(err)
			}
		}
		m.Queues = append(m.Queues, q)
	}
	return m
}

// programAt is the id of the program that Weir has at a hook, 0 for none.
func programAt(t *testing.T, m *Marker, h hook, ifindex int) ebpf.ProgramID {
	t.Helper()
	if !m.tcx {
		filters, _, err := m.conn.Filters(ifindex, h.parent)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range filters {
			return ebpf.ProgramID(f.ProgID)
		}
		return 0
	}
	chain, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: h.attach})
	if err != nil {
		t.Fatal(err)
	}
	if len(chain.Programs) == 0 {
		return 0
	}
	return chain.Programs[0].ID
}

// A program is replaced when its rules change and only then, by this agent or the
// next; without rules it is marking/mark.bpf.c.
func TestRulesChangeInOneStep(t *testing.T) {
	ways(t, func(t *testing.T, host *netnstest.Netns, m *Marker) {
		a := addPort(t, host, m, "a0")
		a.Class = 5
		dscp := uint8(46)
		voice := marking(t, "{udp: 5001}", "")
		marked := marking(t, "{udp: 5001}", "")
		marked.Queues[0].DSCP = &dscp
		var last ebpf.ProgramID
		for i, step := range []struct {
			marking Marking
			program string
			changed bool
		}{
			{Marking{}, programName, true},
			{voice, classifyProgWeirRulesPort, true},
			{voice, classifyProgWeirRulesPort, false},
			{marking(t, "{udp: 5002}", ""), classifyProgWeirRulesPort, true},
			{marked, classifyProgWeirRulesPort, true},
			{Marking{DSCP: &dscp}, classifyProgWeirRulesPort, true},
			{Marking{}, programName, true},
		} {
			way := "tcx"
			if !m.tcx {
				way = "clsact"
			}
			m = newMarker(t, m.opts, way) // as after a restart
			if err := m.Attach(a, step.marking); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			wantPorts(t, m, a)
			now := programAt(t, m, ingress, a.Ifindex)
			who, err := identify(now)
			if err != nil || who.name != step.program {
				t.Errorf("step %d: program %q (%v), want %s", i, who.name, err, step.program)
			}
			if (now != last) != step.changed {
				t.Errorf("step %d: program %d after %d, want changed = %v", i, now, last, step.changed)
			}
			last = now
		}
		if err := m.CleanupAll(); err != nil {
			t.Fatal(err)
		}
		if left := programAt(t, m, ingress, a.Ifindex); left != 0 {
			t.Errorf("program %d is left", left)
		}
	})
}

// The link's own program comes and goes without touching what marks at the same
// device's other side.
func TestLinkEgress(t *testing.T) {
	ways(t, func(t *testing.T, host *netnstest.Netns, m *Marker) {
		before := host.Run("tc", "qdisc", "show")
		a := addPort(t, host, m, "a0")
		a.Class = 5
		dev, err := m.conn.LookupIndex(a.Ifindex)
		if err != nil {
			t.Fatal(err)
		}
		rules := marking(t, "{queue: 3}", "{mark: 0x5/0xff}", "")
		ruled := plan.State{Classes: []plan.Class{{ID: 0, Queues: rules.Queues}}}
		if err := errors.Join(m.Attach(a, Marking{}), m.AttachLink(dev, ruled), m.AttachLink(dev, ruled)); err != nil {
			t.Fatal(err)
		}
		if who, err := identify(programAt(t, m, egress, a.Ifindex)); err != nil || who.name != classifyProgWeirRulesLink {
			t.Errorf("at the link: %+v, %v", who, err)
		}
		wantPorts(t, m, a)
		if err := m.DetachLink(dev); err != nil {
			t.Fatal(err)
		}
		if id := programAt(t, m, egress, a.Ifindex); id != 0 {
			t.Errorf("program %d is left at the link", id)
		}
		wantPorts(t, m, a)
		if err := errors.Join(m.AttachLink(dev, ruled), m.CleanupAll()); err != nil {
			t.Fatal(err)
		}
		if in, out := programAt(t, m, ingress, a.Ifindex), programAt(t, m, egress, a.Ifindex); in != 0 || out != 0 {
			t.Errorf("programs %d and %d are left", in, out)
		}
		host.Run("ip", "link", "del", "a0")
		if after := host.Run("tc", "qdisc", "show"); after != before {
			t.Errorf("qdiscs after cleanup:\n%s\nbefore:\n%s", after, before)
		}
		if left, _ := os.ReadDir(m.opts.StateDir); len(left) > 0 {
			t.Errorf("state left: %v", left)
		}
	})
}

// onlyTransport lets a witness see nothing but UDP, TCP and ICMP over IPv4 in untagged frames: the
// kernel has packets of its own, such as multicast reports, to send at any time.
var onlyTransport = asm.Instructions{
	asm.Mov.Reg(asm.R7, asm.R1),
	asm.Mov.Imm(asm.R2, 14+9),
	asm.Mov.Reg(asm.R3, asm.RFP),
	asm.Add.Imm(asm.R3, -16),
	asm.Mov.Imm(asm.R4, 1),
	asm.StoreImm(asm.RFP, -16, 0, asm.Word),
	asm.FnSkbLoadBytes.Call(),
	asm.LoadMem(asm.R8, asm.RFP, -16, asm.Byte),
	asm.JEq.Imm(asm.R8, unix.IPPROTO_UDP, "taken"),
	asm.JEq.Imm(asm.R8, unix.IPPROTO_ICMP, "taken"),
	asm.JNE.Imm(asm.R8, unix.IPPROTO_TCP, "end"),
	asm.Mov.Reg(asm.R1, asm.R7).WithSymbol("taken"),
}

// witness attaches a program that keeps the mark of the last packet at a hook, of those
// that the filter lets through.
func witness(t *testing.T, ifindex int, attach ebpf.AttachType, filter ...asm.Instruction) (lastMark func() uint32) {
	t.Helper()
	return witnessOf(t, skbMark, ifindex, attach, filter...)
}

// witnessOf does the same with a field of struct __sk_buff.
func witnessOf(t *testing.T, field int16, ifindex int, attach ebpf.AttachType, filter ...asm.Instruction) (last func() uint32) {
	t.Helper()
	marks, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { marks.Close() })
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, AttachType: attach, License: "GPL", Instructions: append(slices.Clone(filter),
		asm.LoadMem(asm.R6, asm.R1, field, asm.Word),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.StoreMem(asm.RFP, -8, asm.R6, asm.Word),
		asm.LoadMapPtr(asm.R1, marks.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, -8),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("end"),
		asm.Return(),
	)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	l, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: prog, Attach: attach, Anchor: link.Tail()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return func() uint32 {
		var mark uint32
		if err := marks.Lookup(uint32(0), &mark); err != nil {
			t.Fatal(err)
		}
		return mark
	}
}

// With a mask, packets of processes in a cgroup are marked with its class and queue; of one in a
// cgroup inside of it, with the inner one's (on kernels that can say so).
func TestCgroup(t *testing.T) {
	host := netnstest.Enter(t)
	opts := netnstest.Options(t)
	opts.MarkMask = uint32(plan.UsualMask)
	m := newMarker(t, opts, "tcx")
	outer := marktest.Cgroup(t)
	inner := filepath.Join(outer, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	removed := false
	t.Cleanup(func() {
		if !removed {
			os.Remove(inner)
		}
	})
	marktest.NoIPv6(host)
	up := addPort(t, host, m, "up0")
	host.Run("ip", "addr", "add", "192.0.2.1/24", "dev", "up0")
	host.Run("ip", "neigh", "add", "192.0.2.9", "lladdr", "02:00:00:00:00:09", "dev", "up0")
	seen := witness(t, up.Ifindex, ebpf.AttachTCXEgress)
	send := func(group string, port int) uint32 {
		host.Run("sh", "-c", fmt.Sprintf("echo $$ > %s/cgroup.procs && exec bash -c 'echo x > /dev/udp/192.0.2.9/%d'", group, port))
		return seen()
	}
	voice := marking(t, "{udp: 5001}", "")
	a, b := plan.Port{Cgroup: outer, Class: 6}, plan.Port{Cgroup: inner, Class: 7}
	if err := errors.Join(m.Attach(a, voice), m.Attach(b, Marking{})); err != nil {
		t.Fatal(err)
	}
	wantPorts(t, m, a, b)
	t.Run("as the unit has it", func(t *testing.T) {
		without(t, unix.CAP_DAC_READ_SEARCH)
		wantPorts(t, m, a, b)
	})
	for _, tt := range []struct {
		group string
		port  int
		want  uint32
	}{
		{outer, 5001, 0x00060000},
		{outer, 5002, 0x20060000},
		{inner, 5001, 0x00070000},
	} {
		if got := send(tt.group, tt.port); got != tt.want {
			t.Errorf("a packet to port %d from %s has mark %#x, want %#x", tt.port, filepath.Base(tt.group), got, tt.want)
		}
	}
	// Changed rules, another agent.
	m = newMarker(t, m.opts, "tcx")
	if err := m.Attach(a, marking(t, "{udp: 5002}", "")); err != nil {
		t.Fatal(err)
	}
	if got := send(outer, 5002); got != 0x00060000 {
		t.Errorf("after the change mark %#x", got)
	}
	enter(t, outer) // without a process it would be a workload's that has ended
	if err := m.Detach(a); err != nil {
		t.Fatal(err)
	}
	if got := send(outer, 5002); got != 0 {
		t.Errorf("after detaching mark %#x", got)
	}
	wantPorts(t, m, b)
	if err := os.Remove(inner); err != nil {
		t.Fatal(err)
	}
	removed = true
	wantPorts(t, m) // and its pin is removed
	if err := errors.Join(m.Detach(b), m.CleanupAll()); err != nil {
		t.Errorf("detach from a cgroup that is gone: %v", err)
	}
	if err := m.Attach(b, Marking{}); !errors.Is(err, dataplane.ErrNoDevice) {
		t.Errorf("attach to a cgroup that is gone: %v, want ErrNoDevice", err)
	}
}

// Without a mask the packets of sockets have the class of their cgroup, and the queue of its rules,
// at the link and at a device above it, where the rules see what a tunnel hides at the link. Their
// mark stays what the process has set, 0 here.
func TestQueuesOfSockets(t *testing.T) {
	ways(t, func(t *testing.T, host *netnstest.Netns, m *Marker) {
		marktest.NoIPv6(host)
		group := marktest.Cgroup(t)
		up := addPort(t, host, m, "up0")
		host.Run("sh", "-ec", `ip addr add 192.0.2.1/24 dev up0
ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev up0
ip link add vx0 type vxlan id 7 dstport 4789 remote 192.0.2.9 dev up0
ip addr add 198.51.100.1/24 dev vx0
ip link set vx0 up
ip neigh add 198.51.100.9 lladdr 02:00:00:00:00:19 dev vx0`)
		rules := marking(t, "{udp: 5001}", "{udp: 5002}", "")
		state := plan.State{
			Classes: []plan.Class{{ID: 0}, {ID: 6, Queues: rules.Queues}},
			Ports:   []plan.Port{{Cgroup: group, Class: 6}},
		}
		must(t, m.Attach(state.Ports[0], rules))
		must(t, m.AttachLinkRules(lookup(t, m, "up0"), state))
		mark := witness(t, up.Ifindex, ebpf.AttachTCXEgress, onlyTransport...)
		tcIndex := witnessOf(t, skbTCIndex, up.Ifindex, ebpf.AttachTCXEgress, onlyTransport...)
		for _, to := range []string{"192.0.2.9", "198.51.100.9"} {
			for port, queue := range map[int]int{5001: 0, 5002: 1, 5003: 2} {
				if !m.tcx && to == "192.0.2.9" {
					continue // a filter at the link comes behind the witness
				}
				host.Run("sh", "-c", fmt.Sprintf("echo $$ > %s/cgroup.procs && exec bash -c 'echo x > /dev/udp/%s/%d'", group, to, port))
				if got, q := m.carrier.Split(tcIndex(), mark()); got != 6 || q != queue || mark() != 0 {
					t.Errorf("to %s:%d: class %d, queue %d, want 6, %d; mark %#x", to, port, got, q, queue, mark())
				}
			}
		}
	})
}

func TestCgroupRefuses(t *testing.T) {
	netnstest.Enter(t)
	m := newMarker(t, netnstest.Options(t), "tcx")
	err := m.Attach(plan.Port{Cgroup: t.TempDir()}, Marking{})
	if err == nil || !strings.Contains(err.Error(), "this is no cgroup; name a folder of the cgroup2 file system") {
		t.Errorf("an ordinary folder: %v", err)
	}
	const old = "/sys/fs/cgroup/memory"
	if _, statErr := os.Stat(old); statErr != nil {
		t.Skip("skipped the rest: no cgroup of version 1 here")
	}
	err = m.Attach(plan.Port{Cgroup: old}, Marking{})
	if !errors.Is(err, dataplane.ErrNoSupport) || !strings.Contains(err.Error(), "version 1") {
		t.Errorf("a cgroup of version 1: %v", err)
	}
}

// A workload cannot have more rules than the kernel side holds, and the largest
// set is loaded.
func TestMaxRules(t *testing.T) {
	netnstest.New(t)
	var list []string
	for i := range classify.MaxRules {
		list = append(list, fmt.Sprintf("{src: 2001:db8:%x::/48, dport: %d, dscp: ef}", i, 1000+i))
	}
	most := marking(t, "["+strings.Join(list, ", ")+"]", "")
	for _, name := range []string{classifyProgWeirRulesPort, classifyProgWeirRulesLink, classifyProgWeirRulesCgrp} {
		info, err := loadAs(t, name, 0, plan.Carrier{}, most).Info()
		if err != nil {
			t.Fatal(err)
		}
		insns, _ := info.VerifiedInstructions()
		t.Logf("%s with %d rules: the verifier looked at %d instructions", name, classify.MaxRules, insns)
	}
	over := marking(t, "["+strings.Join(append(list[1:], "{udp: [9, 11]}"), ", ")+"]", "")
	_, err := compile(ingress.program, 1, plan.Carrier{}, over, ethernetHeader)
	var mistake *invalid.Error
	if !errors.As(err, &mistake) {
		t.Errorf("%d rules: %v, want a *invalid.Error", classify.MaxRules+1, err)
	}
}

// The DSCP of a cgroup's packets is written where they leave, by class and queue,
// and other classes' packets stay as they are.
func TestLateDSCP(t *testing.T) {
	netnstest.New(t)
	ef, le := uint8(46), uint8(1)
	six := marking(t, "{udp: 5001}", "")
	six.DSCP, six.Queues[1].DSCP = &le, &ef
	state := plan.State{
		Classes: []plan.Class{{ID: 0}, {ID: 6, Queues: six.Queues, DSCP: six.DSCP}, {ID: 7}},
		Ports:   []plan.Port{{Cgroup: "/six", Class: 6}, {Cgroup: "/six/again", Class: 6}, {Cgroup: "/seven", Class: 7}},
	}
	p, err := compile(egress.program, 0, plan.Carrier{}, Marking{}, ethernetHeader)
	if err != nil {
		t.Fatal(err)
	}
	bare := p.identity()
	p.serveLate(lateOf(state))
	if p.identity() == bare {
		t.Error("the codepoints are not in the digest")
	}
	prog, err := p.load(ebpf.AttachTCXEgress, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	sealed := marktest.Sealed(t, prog, ebpf.AttachTCXEgress)
	for _, tt := range []struct {
		class plan.ClassID
		queue int
		want  uint8
	}{{6, 0, le}, {6, 1, ef}, {6, 5, le}, {7, 0, 0}, {0, 0, 0}} {
		const mark = 0x4000
		seal := plan.Carrier{}.Seal(tt.class, tt.queue)
		for _, frame := range [][]byte{packet4(17), packet6(17)} {
			after, out := runFrom(t, sealed, 0, frame, mark, seal, 0)
			if got := classify.DecodeEthernet(out); got.DSCP != tt.want || after != mark {
				t.Errorf("class %d, queue %d: codepoint %d, want %d; mark %#x -> %#x", tt.class, tt.queue, got.DSCP, tt.want, mark, after)
			}
			if _, out := runFrom(t, sealed, 2, frame, mark, seal, 0); classify.DecodeEthernet(out).DSCP != 0 {
				t.Errorf("class %d, queue %d: the codepoint of a container's packet was changed", tt.class, tt.queue)
			}
		}
	}
}
