// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"weir/internal/host/verify"
)

// verified runs weir verify and returns its lines by path and direction, and its exit code.
func (b *bed) verified(args ...string) (lines map[string]verify.Line, code int) {
	b.t.Helper()
	got := b.cli(append([]string{"verify", "-o", "json"}, args...)...)
	var list []verify.Line
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil {
		b.t.Fatalf("weir verify: %v: %s %s", err, got.stdout, got.stderr)
	}
	lines = map[string]verify.Line{}
	for _, l := range list {
		lines[l.Path+" "+l.Direction] = l
	}
	return lines, got.code
}

// results fails unless paths have these results.
func (b *bed) results(what string, lines map[string]verify.Line, want map[string]string) {
	b.t.Helper()
	for path, result := range want {
		if l := lines[path]; l.Result != result {
			b.t.Errorf("%s: %s is %q, want %q: %+v", what, path, l.Result, result, l)
		}
	}
	if len(lines) != len(want) {
		b.t.Errorf("%s: %d paths, want %d: %v", what, len(lines), len(want), lines)
	}
}

// weir verify proves each path that a link holds, by injected answers and by a peer's, and finds
// those that pass it by: a bridge that is the link, and packets that are carried past the port.
func TestVerify(t *testing.T) {
	b := newBed(t, 2, 1)
	b.ipv6()
	b.boxes[0].run("ip route add default via " + serverAt(0).ip.String())
	b.boxes[0].run("ip -6 route add default via " + serverAt(0).ipv6().String())
	both := []string{"name: w1, netns: w1", "name: w2, netns: w2"}
	b.attach(b.nets[0].uplink, both...)
	a := b.start()
	b.steered(a)
	all := func(up, down, near string) map[string]string {
		want := map[string]string{"IPv4 UDP, same node egress": near, "IPv6 UDP, same node egress": near}
		for _, path := range []string{"IPv4 UDP", "IPv4 TCP", "IPv6 UDP", "IPv6 TCP"} {
			want[path+" egress"], want[path+" ingress"] = up, down
		}
		return want
	}
	lines, code := b.verified("w1")
	b.results("a bridge's port", lines, all(verify.OK, verify.OK, verify.OK))
	if l := lines["IPv6 UDP ingress"]; code != 0 || l.Sent != 40 || l.Link != 40 || l.Counted != 40 {
		t.Errorf("exit code %d, %+v", code, l)
	}

	far := exec.Command(weir, "verify", "--answer", ":7007")
	b.srv.start(far)
	defer func() { _ = far.Process.Kill(); _ = far.Wait() }()
	lines, code = b.verified("w1", "--peer", fmt.Sprintf("%s:7007", serverAt(0).ip))
	b.results("a peer", lines, map[string]string{"IPv4 UDP egress": verify.OK, "IPv4 UDP ingress": verify.OK, "IPv4 TCP egress": verify.OK, "IPv4 TCP ingress": verify.OK,
		"IPv4 UDP, same node egress": verify.OK, "IPv6 UDP, same node egress": verify.OK})
	if l := lines["IPv4 UDP egress"]; code != 0 || l.Answered != 40 {
		t.Errorf("exit code %d, %+v", code, l)
	}

	end := b.redirected(1)
	b.past(a, "w1", "an XDP program at its port", "xdp off")
	lines, code = b.verified("w1")
	b.results("XDP at the port", lines, all(verify.NotSteered, verify.NotProved, verify.NotProved))
	if l := lines["IPv4 UDP egress"]; code != 1 || l.Link != 0 || l.Counted != 0 {
		t.Errorf("exit code %d, %+v", code, l)
	}
	end()
	await(t, said, "well without it", func() error {
		if w := a.workload("w1"); w.State != "active" || w.Note != "" {
			return errors.New(w.State + " " + w.Note)
		}
		return nil
	})

	end = b.carryPast(1)
	lines, code = b.verified("w1")
	b.results("past the port", lines, all(verify.OK, verify.NotSteered, verify.OK))
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	end()

	b.attach(b.nets[0].bridge, both...)
	await(t, 40*time.Second, "the other link is steered", func() error { // in virtual time a load takes seconds
		status, err := a.Status(context.Background())
		for _, l := range status.Links {
			if err == nil && (l.Device != b.nets[0].bridge || l.Backend == "none" || l.Error != "") {
				err = fmt.Errorf("%s (%s): backend %s, %s", l.Device, l.Direction, l.Backend, l.Error)
			}
		}
		return err
	})
	b.past(a, "w1", "it is a port of the bridge br0")
	lines, code = b.verified("w1")
	b.results("a bridge as the link", lines, all(verify.NotSteered, verify.NotSteered, verify.OK))
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}

// redirected has an XDP program send what comes by a workload's port out by the uplink, past its
// queue, until end is called.
func (b *bed) redirected(i int) (end func()) {
	b.t.Helper()
	port, uplink := b.host.device(portName(0, i)).Attrs().Index, b.host.device(b.nets[0].uplink).Attrs().Index
	sender, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(uplink)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return(),
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	defer sender.Close()
	var at link.Link
	err = b.host.do(func() (err error) {
		at, err = link.AttachXDP(link.XDPOptions{Interface: port, Program: sender, Flags: link.XDPGenericMode})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return func() { _ = at.Close() }
}

// carryPast has what comes by the uplink carried into a workload past its port, as an eBPF data
// plane does, until end is called.
func (b *bed) carryPast(i int) (end func()) {
	b.t.Helper()
	port, uplink := b.host.device(portName(0, i)).Attrs().Index, b.host.device(b.nets[0].uplink).Attrs().Index
	carrier, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(port)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirectPeer.Call(), asm.Return(),
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	defer carrier.Close()
	var at link.Link
	err = b.host.do(func() (err error) {
		at, err = link.AttachTCX(link.TCXOptions{Interface: uplink, Program: carrier, Attach: ebpf.AttachTCXIngress})
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return func() { _ = at.Close() }
}
