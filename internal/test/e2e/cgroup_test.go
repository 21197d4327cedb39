// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/base/cgroup"
	"weir/internal/core/policy"
)

// group is a cgroup of version 2 with processes of a test in it.
type group struct {
	t      testing.TB
	folder string
}

// newGroup makes a cgroup, below folders that are made as well. It goes with the
// test, or before by remove.
func newGroup(t testing.TB, path string) *group {
	t.Helper()
	noOthersGroups(t)
	g := &group{t, filepath.Join(cgroup.Read().Root, path)}
	g.make()
	t.Cleanup(func() {
		for dir := g.folder; dir != cgroup.Read().Root; dir = filepath.Dir(dir) {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return // another test group is in it
			}
		}
	})
	return g
}

// noOthersGroups has the tests of other processes wait that make groups: they find each other's by
// their names.
func noOthersGroups(t testing.TB) {
	t.Helper()
	if groupsHeld {
		return
	}
	root, err := os.Open(cgroup.Read().Root)
	if err == nil {
		err = unix.Flock(int(root.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	groupsHeld = true
	t.Cleanup(func() {
		groupsHeld = false
		root.Close()
	})
}

// groupsHeld says that this process makes groups now.
var groupsHeld bool

func (g *group) make() {
	g.t.Helper()
	if err := os.MkdirAll(g.folder, 0o755); err != nil {
		g.t.Fatal(err)
	}
}

func (g *group) remove() {
	g.t.Helper()
	await(g.t, 5*time.Second, "no process in "+g.folder, func() error { return os.Remove(g.folder) })
}

// newcomer is a sender with the host's network, or one that is stacked on it, whose
// packets no port on the host could mark.
type newcomer struct {
	*space        // the network namespace that it is in
	in     *group // nil: with the host's own processes
	at     endpoint
}

// addNewcomer gives an address of workload i to a device of a namespace.
func (b *bed) addNewcomer(s *space, device string, i int, in *group) newcomer {
	b.t.Helper()
	n := newcomer{s, in, endpoint{workloadAt(0, i).ip, s.device(device).Attrs().HardwareAddr}}
	s.must("address "+device, s.AddrAdd(s.device(device), &netlink.Addr{IPNet: &net.IPNet{IP: n.at.ip, Mask: net.CIDRMask(16, 32)}}))
	s.knows(device, serverAt(0))
	b.srv.knows("eth0", n.at)
	return n
}

// sends starts a flood from the newcomer's address.
func (b *bed) sends(n newcomer) flow {
	b.t.Helper()
	*b.flows++
	f := flow{id: *b.flows}
	args := []string{"udp", fmt.Sprintf("%s:%d", serverAt(0).ip, udpPort), fmt.Sprint(f.id),
		fmt.Sprint(uint64(0.9 * float64(b.capacity))), "200", fmt.Sprint(payload), "0", n.at.ip.String()}
	f.process = launchIn(n.in, n.space, args...)
	return f
}

// macvlan makes a namespace whose only device is stacked on one of the host's.
func (b *bed) macvlan(name, parent string) *space {
	b.t.Helper()
	s := newSpace(b.t, name)
	b.stack(s, "eth0", parent)
	return s
}

// stack puts a device into a namespace that is stacked on one of the host's.
func (b *bed) stack(s *space, name, parent string) {
	b.t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex, attrs.Namespace = name, b.host.device(parent).Attrs().Index, netlink.NsFd(s.handle)
	b.host.must("make a macvlan on "+parent, b.host.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}))
	s.up(name)
}

// inState waits for a workload's state.
func (a *agent) inState(name, state string, cgroups int) {
	a.t.Helper()
	await(a.t, 5*time.Second, name+" "+state, func() error {
		w, err := a.Workload(context.Background(), name)
		if err == nil && (w.State != state || len(w.Cgroups) != cgroups) {
			err = fmt.Errorf("it is %s (%s) with cgroups %q", w.State, w.Note, w.Cgroups)
		}
		return err
	})
}

// Processes that have no device of their own: a systemd unit and a cgroup with the
// host's network, and a namespace with a macvlan, beside a workload with a veth and
// the host's own processes.
func TestCgroups(t *testing.T) {
	if cgroup.Read().Root == "" {
		t.Skip("no cgroup2 is mounted")
	}
	b := newBed(t, 1, 1)
	b.measure(0, 5)
	before := b.traces()
	web, batch, stacked := newGroup(t, "system.slice/e2e-web.service"), newGroup(t, "e2e-batch"), newGroup(t, "e2e-stacked")
	w2 := b.addNewcomer(b.host, b.nets[0].bridge, 2, web)
	w3 := b.addNewcomer(b.host, b.nets[0].bridge, 3, batch)
	w4 := b.addNewcomer(b.macvlan("mac", b.nets[0].bridge), "eth0", 4, stacked)
	w5 := b.addNewcomer(b.host, b.nets[0].bridge, 5, nil)
	b.configure("  - {unit: \"e2e-*\"}\n")
	a := b.start()
	b.steered(a)
	a.inState("e2e-web.service", "active", 1) // found by the pattern
	b.weir("set", "e2e-web.service", "--weight", "3")
	b.weir("attach", "batch", "--cgroup", batch.folder, "--max", "10%")
	b.weir("attach", "stacked", "--cgroup", stacked.folder, "--min", "30%")
	a.inState("batch", "active", 1)
	t.Logf("\n%s", b.weir("get"))

	b.flood(0, 1, 0.9)
	unit := b.sends(w2)
	b.sends(w3)
	b.sends(w4)
	b.sends(w5)
	b.warmUp()
	weight := func(n uint32) policy.Policy { return policy.Policy{Weight: n} }
	tenth := policy.Policy{Weight: 1, Max: policy.Amount{Percent: 10}}
	third := policy.Policy{Weight: 1, Min: policy.Amount{Percent: 30}}
	want := b.ideal(weight(1), weight(3), tenth, third, weight(1))
	b.same("all send", b.full(0, 2*time.Second), want, unchanged)

	a.kill()
	b.same("without an agent", b.full(0, 2*time.Second), want, unchanged)
	a = b.start()
	a.inState("e2e-web.service", "active", 1)
	b.same("with a new one", b.full(0, 2*time.Second), want, unchanged)
	b.weir("set", "batch", "--max", "20%")
	tenth.Max.Percent = 20
	b.warmUp()
	b.same("another max", b.full(0, 2*time.Second), b.ideal(weight(1), weight(3), tenth, third, weight(1)), unchanged)

	// A unit that stops is gone with its cgroup, and marked anew when it is back.
	unit.stop()
	web.remove()
	await(t, 5*time.Second, "the unit gone", func() error {
		if _, err := a.Workload(context.Background(), "e2e-web.service"); err == nil {
			return errors.New("it is still there")
		}
		return nil
	})
	b.warmUp()
	rest := b.ideal(weight(1), tenth, third, weight(1))
	b.same("without the unit", b.full(0, 2*time.Second), []float64{rest[0], 0, rest[1], rest[2], rest[3]}, unchanged)
	web.make()
	b.sends(w2)
	a.inState("e2e-web.service", "active", 1)
	b.warmUp()
	b.same("the unit is back", b.full(0, 2*time.Second), b.ideal(weight(1), weight(3), tenth, third, weight(1)), unchanged)

	// Detached, its packets are the host's.
	b.weir("detach", "stacked")
	b.weir("detach", "batch")
	b.warmUp()
	rates := b.full(0, 2*time.Second)
	rest = b.ideal(weight(1), weight(3), weight(1))
	b.same("two are the host's", []float64{rates[0], rates[1], rates[2] + rates[3] + rates[4]}, rest, unchanged)

	a.stop()
	b.weir("cleanup", "--config", b.configFile())
	if onBPF() {
		b.asBefore("cleanup", before)
	}
}

// Two units of which one is made anew at once: its new cgroup is marked, too.
func TestUnitRestarts(t *testing.T) {
	if cgroup.Read().Root == "" {
		t.Skip("no cgroup2 is mounted")
	}
	b := newBed(t, 1, 1)
	b.measure(0, 2)
	web := newGroup(t, "system.slice/e2e-web.service")
	w2 := b.addNewcomer(b.host, b.nets[0].bridge, 2, web)
	b.configure("  - {name: web, unit: e2e-web}\nworkloads: {web: {max: 10%}}\n")
	a := b.start()
	b.steered(a)
	a.inState("web", "active", 1)
	b.healthy()
	limited := []float64{0, 0.1 * float64(b.capacity) / 1e6}
	for range 5 {
		sender := b.sends(w2)
		b.warmUp()
		b.same("limited", b.rates(0, time.Second), limited, unchanged)
		sender.stop()
		if err := os.Remove(web.folder); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(web.folder, 0o755); err != nil { // as fast as it can be
			t.Fatal(err)
		}
	}
}

// launchIn starts a child in a namespace and in a cgroup, if there is one, in which
// it is from its first instruction on.
func launchIn(in *group, s *space, args ...string) *process {
	s.t.Helper()
	if in == nil {
		return launch(s, args...)
	}
	folder, err := os.Open(in.folder)
	if err != nil {
		s.t.Fatal(err)
	}
	defer folder.Close()
	return launchWith(s, &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(folder.Fd())}, args...)
}

// Multus gives a pod a macvlan beside its veth: both are one workload.
func TestPodWithMacvlan(t *testing.T) {
	if cgroup.Read().Root == "" {
		t.Skip("no cgroup2 is mounted")
	}
	b := newBed(t, 2, 1)
	b.measure(0, 3)
	pod, in := b.boxes[0], newGroup(t, "kubepods/e2e-pod")
	both := b.boxes
	b.boxes = both[1:] // what weir.yaml names, as w1
	b.stack(pod, "net1", b.nets[0].bridge)
	second := b.addNewcomer(pod, "net1", 3, in)
	b.configure("")
	a := b.start()
	if _, err := a.Attach(context.Background(), api.AttachRequest{Name: "shop/web", Pod: "s1", Netns: "/run/netns/" + pod.name, Cgroup: in.folder}, false); err != nil {
		t.Fatal(err)
	}
	a.inState("shop/web", "active", 1)
	b.steered(a)
	b.boxes = both
	b.flood(0, 1, 0.9)
	b.flood(0, 2, 0.9)
	b.sends(second)
	b.warmUp()
	rates := b.full(0, 2*time.Second)
	one := policy.Policy{Weight: 1}
	b.same("by both devices, and another", []float64{rates[0] + rates[2], rates[1]}, b.ideal(one, one), unchanged)
	if rates[0] == 0 || rates[2] == 0 {
		t.Errorf("one device of the pod sends nothing: %s", inMbit(rates))
	}
}
