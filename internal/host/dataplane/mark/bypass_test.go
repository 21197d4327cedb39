// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/bypass"
	"weir/internal/host/dataplane/mark/marktest"
)

const xdpTxRing = 3 // XDP_TX_RING of linux/if_xdp.h

// A process in a workload's cgroup, or in a cgroup inside of it, may not send past the qdisc,
// in whatever way it asks; others may, and other options are not touched. The next agent
// finds it so, and it ends with the workload.
func TestNoWayPastTheQdisc(t *testing.T) {
	host := netnstest.Enter(t)
	if err := bypass.Unsupported(); err != nil {
		t.Skipf("skipped: this kernel cannot refuse socket options: %v", err)
	}
	opts := netnstest.Options(t)
	m := newMarker(t, opts, "tcx")
	b := marktest.New(t, host)
	ask := func(group string, refused bool) {
		t.Helper()
		for _, way := range marktest.Ways() {
			for _, o := range []struct {
				kind          string
				level, option int
				bypasses      bool
			}{
				{"packet", unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, true},
				{"xdp", unix.SOL_XDP, xdpTxRing, true},
				{"packet", unix.SOL_PACKET, unix.PACKET_AUXDATA, false},
				{"udp", unix.SOL_SOCKET, unix.SO_REUSEADDR, false},
				{"udp", unix.SOL_IP, unix.PACKET_QDISC_BYPASS, false}, // the same number of another level
			} {
				err := marktest.Option(t, group, way, o.kind, o.level, o.option)
				if way == "uring" && errors.Is(err, unix.EOPNOTSUPP) {
					continue // such a socket takes no command of io_uring on this kernel
				}
				if want := refused && o.bypasses; errors.Is(err, unix.EPERM) != want {
					t.Errorf("%s, %s, level %d, option %d: %v, want refused = %v", way, o.kind, o.level, o.option, err, want)
				}
			}
		}
	}
	six := plan.Port{Cgroup: b.State().Ports[1].Cgroup, Class: 6}
	inside := filepath.Join(six.Cgroup, "inside")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(inside)
	ask(six.Cgroup, false)
	if err := m.Attach(six, Marking{}); err != nil {
		t.Fatal(err)
	}
	ask(six.Cgroup, true)
	ask(inside, true)
	ask(b.Agent, false)

	m = newMarker(t, opts, "tcx") // another agent adopts what this one left
	wantPorts(t, m, six)
	missing, err := m.Missing(plan.State{Ports: []plan.Port{six}})
	if err != nil || len(missing) > 0 {
		t.Errorf("missing %v, %v", missing, err)
	}
	ask(six.Cgroup, true)
	if err := m.bypass().Unbind(cgroupID(t, six.Cgroup)); err != nil {
		t.Fatal(err)
	}
	if missing, err = m.Missing(plan.State{Ports: []plan.Port{six}}); err != nil || len(missing) != 1 {
		t.Errorf("missing %v, %v; want that the cgroup may send past the qdisc", missing, err)
	}
	if err := m.Attach(six, Marking{}); err != nil {
		t.Fatal(err)
	}
	ask(six.Cgroup, true)
	enter(t, six.Cgroup) // without a process it would be a workload's that has ended
	if err := m.Detach(six); err != nil {
		t.Fatal(err)
	}
	ask(six.Cgroup, false)
	if err := errors.Join(m.Attach(six, Marking{}), m.CleanupAll()); err != nil {
		t.Fatal(err)
	}
	ask(six.Cgroup, false)
	if left, err := filepath.Glob(filepath.Join(opts.BPFFS, "*")); err != nil || len(left) > 0 {
		t.Errorf("left after the cleanup: %v, %v", left, err)
	}
}

// What the kernel reports of multicast is no socket's. So a workload may change the groups of its
// sockets 500 times at once, in whatever family and by whatever option, and then five times a
// second; others as often as they like.
func TestReportsAreBounded(t *testing.T) {
	host := netnstest.Enter(t)
	if err := bypass.Unsupported(); err != nil {
		t.Skipf("skipped: this kernel cannot refuse socket options: %v", err)
	}
	m := newMarker(t, netnstest.Options(t), "tcx")
	six := plan.Port{Cgroup: marktest.Cgroup(t), Class: 6}
	if err := m.Attach(six, Marking{}); err != nil {
		t.Fatal(err)
	}
	host.Run("ip", "link", "set", "lo", "up")
	four, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(four)
	sixes, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(sixes)
	group4 := &unix.IPMreqn{Multiaddr: [4]byte{239, 1, 2, 3}, Ifindex: 1}
	group6 := &unix.IPv6Mreq{Multiaddr: [16]byte{0: 0xff, 1: 0x0e, 15: 9}, Interface: 1}
	changes := []func() error{
		func() error { return unix.SetsockoptIPMreqn(four, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, group4) },
		func() error { return unix.SetsockoptIPMreqn(four, unix.IPPROTO_IP, unix.IP_DROP_MEMBERSHIP, group4) },
		func() error { return unix.SetsockoptIPv6Mreq(sixes, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, group6) },
		func() error { return unix.SetsockoptIPv6Mreq(sixes, unix.IPPROTO_IPV6, unix.IPV6_LEAVE_GROUP, group6) },
	}
	granted := func(tries int) (n int) {
		for i := range tries {
			switch err := changes[i%len(changes)](); {
			case err == nil:
				n++
			case !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EADDRNOTAVAIL) && !errors.Is(err, unix.EADDRINUSE):
				t.Fatal(err)
			}
		}
		return n
	}
	if n := granted(2000); n != 2000 {
		t.Errorf("no workload's process: %d of 2000 changes are granted", n)
	}
	join := func(group string) error {
		return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0)
	}
	if err := join(six.Cgroup); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := join(filepath.Dir(six.Cgroup)); err != nil {
			t.Error(err)
		}
	}()
	if n := granted(2000); n < 490 || n > 510 { // some time goes by
		t.Errorf("%d changes are granted at once, 500 are the most", n)
	}
	time.Sleep(2 * time.Second)
	if n := granted(400); n < 5 || n > 20 {
		t.Errorf("2 s later %d changes are granted, want some 10", n)
	}
	if err := unix.SetsockoptInt(four, unix.IPPROTO_IP, unix.IP_TTL, 9); err != nil {
		t.Errorf("another option: %v", err)
	}
}

// A container is refused the options from its beginning on, before any agent knows of it, for
// sockets of the host's network; other cgroups are not.
func TestContainersAreBornWithoutAWayPast(t *testing.T) {
	netnstest.Enter(t)
	if err := bypass.Unsupported(); err != nil {
		t.Skipf("skipped: this kernel cannot refuse socket options: %v", err)
	}
	opts := netnstest.Options(t)
	m := newMarker(t, opts, "tcx")
	if err := m.bypass().Stand(); err != nil {
		t.Fatal(err)
	}
	parent, another := marktest.Cgroup(t), netnstest.New(t)
	id := strings.Repeat("0123456789abcdef", 4)
	for name, container := range map[string]bool{"docker-" + id + ".scope": true, id: true, "cri-containerd-" + id + ".scope": true, "cron.service": false, id[1:]: false} {
		group := filepath.Join(parent, name)
		if err := os.Mkdir(group, 0o755); err != nil {
			t.Fatal(err)
		}
		ask := func(netns string) error {
			return marktest.OptionIn(t, netns, group, "call", "packet", unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS)
		}
		if err := ask("/proc/self/ns/net"); errors.Is(err, unix.EPERM) != container {
			t.Errorf("%s: %v, want refused = %v", name, err, container)
		}
		if err := ask(another.Path()); err != nil {
			t.Errorf("%s, with a network of its own: %v", name, err)
		}
		wantPorts(t, m) // an agent that looks for what is gone
		if err := ask("/proc/self/ns/net"); errors.Is(err, unix.EPERM) != container {
			t.Errorf("%s, later: %v, want refused = %v", name, err, container)
		}
		if err := os.Remove(group); err != nil {
			t.Fatal(err)
		}
	}
	wantPorts(t, m)
	if all, err := m.bypass().IDs(); err != nil || len(all) > 0 {
		t.Errorf("left in the table: %v, %v", all, err)
	}
	leavesNothing(t, m, opts)
}

// Cgroups with names of containers keep no workload out of the table. Those that a user makes, or
// the root of a container that has cgroups of its own, are not in it.
func TestNamesOfContainersFillNoTable(t *testing.T) {
	netnstest.Enter(t)
	if err := bypass.Unsupported(); err != nil {
		t.Skipf("skipped: this kernel cannot refuse socket options: %v", err)
	}
	m := newMarker(t, netnstest.Options(t), "tcx")
	known := plan.Port{Cgroup: marktest.Cgroup(t), Class: 5}
	attachTo(t, m, known)
	parent, of := marktest.Cgroup(t), 0
	born := func(many int) (count int) {
		t.Helper()
		for range many {
			of++
			group := filepath.Join(parent, fmt.Sprintf("%064x", of))
			if err := os.Mkdir(group, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.Remove(group) })
		}
		all, err := m.bypass().IDs()
		if err != nil {
			t.Fatal(err)
		}
		return len(all) - 1
	}
	if n := as(t, 1000, func() int { return born(1) }); n != 0 {
		t.Errorf("a user's: %d in the table", n)
	}
	if n := elsewhere(t, func() int { return born(1) }); n != 0 {
		t.Errorf("a container's, whose cgroups are its own: %d in the table", n)
	}
	const room = 4096 // WEIR_OWNERS
	if n := born(room); n != room-1 {
		t.Errorf("root's: %d in the table, want %d", n, room-1)
	}
	next := plan.Port{Cgroup: marktest.Cgroup(t), Class: 6}
	attachTo(t, m, next)
	for _, port := range []plan.Port{known, next} {
		if held, err := m.bypass().Holds(port.Cgroup); err != nil || !held {
			t.Errorf("%s: refused = %v, %v", port, held, err)
		}
	}
}

// as does something as a user who is not root, with root's rights: the real user is another.
func as(t *testing.T, uid int, do func() int) int {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set := func(uid int) {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), ^uintptr(0), ^uintptr(0)); errno != 0 {
			t.Fatal(errno)
		}
	}
	set(uid)
	defer set(0)
	return do()
}

// elsewhere does something as root in a cgroup namespace of its own, as a container has.
func elsewhere(t *testing.T, do func() int) (n int) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		defer close(ended)     // of a test that has failed, too
		runtime.LockOSThread() // and not unlocked: the thread ends with its namespace
		err := unix.Unshare(unix.CLONE_NEWCGROUP)
		if err == nil {
			n = do()
		}
		ended <- err
	}()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return n
}

// A cgroup that is gone leaves the table.
func TestBoundCgroupsThatAreGone(t *testing.T) {
	netnstest.Enter(t)
	if err := bypass.Unsupported(); err != nil {
		t.Skipf("skipped: this kernel cannot refuse socket options: %v", err)
	}
	m := newMarker(t, netnstest.Options(t), "tcx")
	stays, goes := plan.Port{Cgroup: marktest.Cgroup(t), Class: 1}, plan.Port{Cgroup: marktest.Cgroup(t), Class: 2}
	if err := errors.Join(m.Attach(stays, Marking{}), m.Attach(goes, Marking{})); err != nil {
		t.Fatal(err)
	}
	gone := cgroupID(t, goes.Cgroup)
	if err := os.Remove(goes.Cgroup); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { // the kernel ends the link some time later
		wantPorts(t, m, stays)
		there, err := m.bypass().IsBound(gone)
		return err == nil && !there
	})
	if there, err := m.bypass().IsBound(cgroupID(t, stays.Cgroup)); err != nil || !there {
		t.Errorf("the one that stays is not: %v, %v", there, err)
	}
}
