// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/api/apitest"
)

// nest makes a network namespace inside a workload's, with a user namespace that owns it, as
// "unshare -Urn" does in a container. A process keeps it.
func nest(outer *space) *space {
	outer.t.Helper()
	p := launchWith(outer, &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{Size: 1}}, GidMappings: []syscall.SysProcIDMap{{Size: 1}},
	}, "stay")
	if _, err := p.out.ReadString('\n'); err != nil {
		outer.t.Fatal(err)
	}
	return openSpace(outer.t, fmt.Sprintf("/proc/%d/ns/net", p.cmd.Process.Pid))
}

// openSpace returns a namespace that lasts as long as a process in it.
func openSpace(t testing.TB, path string) *space {
	t.Helper()
	s := &space{t: t, name: path, gone: true}
	var err error
	if s.handle, err = netns.GetFromPath(path); err == nil {
		s.Handle, err = netlink.NewHandleAt(s.handle, unix.NETLINK_ROUTE)
	}
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	t.Cleanup(func() { s.Handle.Close(); s.handle.Close() })
	return s
}

// moves takes workload i's device from one namespace to another, and its address with it.
func (b *bed) moves(i int, from, to *space) {
	b.t.Helper()
	from.must("move eth0", from.LinkSetNsFd(from.device("eth0"), int(to.handle)))
	to.must("address eth0", to.AddrAdd(to.device("eth0"), &netlink.Addr{IPNet: &net.IPNet{IP: workloadAt(0, i).ip, Mask: net.CIDRMask(16, 32)}}))
	to.up("eth0")
	to.knows("eth0", serverAt(0))
}

// held waits until the agent says that a workload's device is still the workload's, and
// returns the note.
func (a *agent) held(name, device string) (note string) {
	a.t.Helper()
	await(a.t, 5*time.Second, device+" held as one of "+name, func() error {
		w, err := a.Workload(context.Background(), name)
		if err == nil && (w.State != "active" || len(w.Devices) != 1 || !strings.Contains(w.Note, device)) {
			err = fmt.Errorf("it is %s with devices %v, note %q", w.State, w.Devices, w.Note)
		}
		note = w.Note
		return err
	})
	return note
}

// A container moves its device into a network namespace that it makes inside its own. The
// device's packets are counted as the container's all the same, also by the next agent, and
// by one that was not there when it happened.
func TestDeviceThatIsMovedAway(t *testing.T) {
	b := newBed(t, 2, 1)
	b.configure("workloads: {w1: {max: 10%}}\n")
	a := b.start()
	b.steered(a)
	limited := []float64{0.1 * float64(b.capacity) / 1e6}
	sends := func(what string, from *space) {
		t.Helper()
		was := b.boxes[0]
		b.boxes[0] = from
		sender := b.flood(0, 1, 0.9)
		b.warmUp()
		b.same(what, b.rates(0, 2*time.Second)[:1], limited, 0.01)
		sender.kill()
		b.boxes[0] = was
	}
	sends("in its namespace", b.boxes[0])
	inner := nest(b.boxes[0])
	b.moves(1, b.boxes[0], inner)
	t.Log(a.held("w1", "w1"))
	sends("in a nested one", inner)

	a.stop()
	a = b.start()
	a.held("w1", "w1")
	sends("with a new agent", inner)

	a.kill()
	third := nest(inner)
	b.moves(1, inner, third)
	sends("without an agent", third)
	a = b.start()
	a.held("w1", "w1")
	sends("with an agent that did not see the second move", third)

	// In the namespace of another workload it is that one's.
	third.must("rename eth0", third.LinkSetName(third.device("eth0"), "eth9"))
	third.must("move eth9", third.LinkSetNsFd(third.device("eth9"), int(b.boxes[1].handle)))
	await(t, 5*time.Second, "the device changes hands", func() error {
		if w := a.workload("w2"); len(w.Devices) != 2 {
			return fmt.Errorf("devices of w2 are %v", w.Devices)
		}
		return nil
	})
}

// A device that a workload moved away is its own until the device is gone.
func TestMovedDeviceIsDeleted(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("")
	a := b.start()
	b.steered(a)
	b.moves(1, b.boxes[0], nest(b.boxes[0]))
	a.held("w1", "w1")
	b.host.delete("w1")
	await(t, 5*time.Second, "w1 waits", func() error {
		if w := a.workload("w1"); w.State != "waiting" || !strings.HasPrefix(w.Note, "no veth or netkit pair of this host leads into") {
			return errors.New(w.State + " " + w.Note)
		}
		return nil
	})
	b.plugBox(b.boxes[0], 0, 1)
	b.steered(a)
	if w := a.workload("w1"); w.Note != "" {
		t.Errorf("note %q", w.Note)
	}
}

// A pod moves its device into a nested namespace, which outlives the pod. The device counts as
// the pod's, with the pod's policy, until it is gone; then nothing of the pod is left.
func TestDeviceOutlivesItsPod(t *testing.T) {
	b := newBed(t, 1, 1)
	pod := b.boxes[0]
	b.boxes = nil // what weir.yaml names
	b.configure("")
	b.boxes = []*space{pod}
	a := b.start()
	attach := func(id string, asked ...string) {
		t.Helper()
		request := api.AttachRequest{Name: "shop/web", Pod: id, Netns: "/run/netns/" + pod.name, Policy: apitest.Change(asked...)}
		if _, err := a.Attach(context.Background(), request, false); err != nil {
			t.Fatal(err)
		}
	}
	attach("s1", "max", "10%")
	a.inState("shop/web", "active", 0)
	inner := nest(pod)
	b.moves(1, pod, inner)
	a.held("shop/web", "w1")
	b.boxes[0] = inner
	b.flood(0, 1, 0.9)
	b.warmUp()
	limited := []float64{0.1 * float64(b.capacity) / 1e6}
	b.same("moved away", b.rates(0, time.Second), limited, 0.01)
	if _, err := a.Detach(context.Background(), "shop/web", false); err != nil {
		t.Fatal(err)
	}
	b.same("the pod has ended", b.rates(0, 2*time.Second), limited, 0.01)
	if note := a.held("shop/web", "w1"); !strings.Contains(note, "has ended") {
		t.Errorf("note %q", note)
	}
	a.stop()
	a = b.start()
	b.same("with a new agent", b.rates(0, 2*time.Second), limited, 0.01)
	if note := a.held("shop/web", "w1"); !strings.Contains(note, "has ended") {
		t.Errorf("note %q", note)
	}
	if id := a.workload("shop/web").ID; id != "" {
		t.Errorf("its id is %s, so that weir-kubernetes would detach it again and again", id)
	}
	b.host.delete("w1")
	await(t, 5*time.Second, "nothing of it is left", func() error {
		if _, err := a.Workload(context.Background(), "shop/web"); err == nil {
			return errors.New("it is still there")
		}
		return nil
	})
	attach("s2") // its settings are gone, too
	if w := a.workload("shop/web"); !w.Policy.Max.None() {
		t.Errorf("max is %s", w.Policy.Max)
	}
}
