// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/base/cgroup"
	"weir/internal/core/workload"
	"weir/internal/host/discover/within"
	"weir/internal/test/dockertest"
)

// realDocker follows the private engine.
func realDocker(t *testing.T, e *dockertest.Engine) (*Docker, *reports) {
	t.Helper()
	d, err := NewDocker(logger(t), runLinks(t, e.Netns), "unix://"+e.Socket)
	if err != nil {
		t.Fatal(err)
	}
	return d, runSource(t, d)
}

// run starts a container that is removed at the end of the test.
func run(t *testing.T, e *dockertest.Engine, c dockertest.Container) (id string) {
	t.Helper()
	id = e.MustRun(t, c)
	t.Cleanup(func() { _ = e.Remove(context.Background(), id) }) // may have been removed by the test
	return id
}

func TestRealContainers(t *testing.T) {
	e := realEngine(t)
	ctx := t.Context()
	id := run(t, e, dockertest.Container{Name: "before", Labels: map[string]string{"weir.weight": "3"}})
	d, r := realDocker(t, e)

	before := r.waitFor("docker:before", "with a device", withDevices(1))
	if before.ID != id || before.Name != "before" || before.Kind != "docker" || before.Labels["weir.weight"] != "3" || before.Note != "" {
		t.Errorf("unexpected workload: %+v", before)
	}
	checkPeer(t, e, before.Devices[0])
	if state, note := d.Status(); state != workload.SourceOK || note != "" {
		t.Errorf("status %q %q, want ok", state, note)
	}

	run(t, e, dockertest.Container{Name: "after"})
	after := r.waitFor("docker:after", "with a device", withDevices(1))
	checkPeer(t, e, after.Devices[0])

	t.Run("restart keeps the key", func(t *testing.T) {
		if err := e.Client().ContainerRestart(ctx, "after", container.StopOptions{}); err != nil {
			t.Fatal(err)
		}
		now := r.waitFor("docker:after", "with another device", func(w Workload) bool {
			return len(w.Devices) == 1 && w.Devices[0].Ifindex != after.Devices[0].Ifindex
		})
		checkPeer(t, e, now.Devices[0])
		if now.ID != after.ID {
			t.Errorf("id changed from %s to %s", after.ID, now.ID)
		}
	})
	t.Run("rename", func(t *testing.T) {
		if err := e.Client().ContainerRename(ctx, "after", "afterwards"); err != nil {
			t.Fatal(err)
		}
		r.waitFor("docker:afterwards", "with a device", withDevices(1))
		r.waitGone("docker:after")
	})
	t.Run("pause", func(t *testing.T) {
		if err := e.Client().ContainerPause(ctx, "before"); err != nil {
			t.Fatal(err)
		}
		defer e.Client().ContainerUnpause(ctx, "before")
		run(t, e, dockertest.Container{Name: "meanwhile"})
		r.waitFor("docker:meanwhile", "with a device", withDevices(1))
		r.waitFor("docker:before", "as it was", withDevices(1))
	})
	t.Run("remove", func(t *testing.T) {
		if err := e.Remove(ctx, "before"); err != nil {
			t.Fatal(err)
		}
		r.waitGone("docker:before")
	})
}

// checkPeer sees with other means that the other end of a device is where it is
// said to be.
func checkPeer(t *testing.T, e *dockertest.Engine, d Device) {
	t.Helper()
	inside, err := netns.GetFromPath(d.PeerNetns)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	h, err := netlink.NewHandleAt(inside, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	peer, err := h.LinkByIndex(d.PeerIfindex)
	if err != nil {
		t.Fatalf("peer %d of %s: %v", d.PeerIfindex, d.Name, err)
	}
	if peer.Type() != "veth" || peer.Attrs().ParentIndex != d.Ifindex {
		t.Errorf("%s (%d) and %s (%d, other end %d) are no pair", d.Name, d.Ifindex, peer.Attrs().Name, d.PeerIfindex, peer.Attrs().ParentIndex)
	}
}

func TestRealNetworks(t *testing.T) {
	e := realEngine(t)
	ctx := t.Context()
	for name, driver := range map[string]string{"net1": "bridge", "net2": "bridge"} {
		if err := e.Network(ctx, name, driver, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Client().NetworkRemove(context.Background(), name) })
	}
	_, r := realDocker(t, e)
	run(t, e, dockertest.Container{Name: "many", Network: "net1"})
	r.waitFor("docker:many", "with one device", withDevices(1))
	for i, network := range []string{"net2", "bridge"} { // connected while it runs
		if err := e.Client().NetworkConnect(ctx, network, "many", nil); err != nil {
			t.Fatal(err)
		}
		w := r.waitFor("docker:many", "with one device more", withDevices(i+2))
		for _, d := range w.Devices {
			checkPeer(t, e, d)
		}
	}
	if err := e.Client().NetworkDisconnect(ctx, "net1", "many", false); err != nil {
		t.Fatal(err)
	}
	r.waitFor("docker:many", "with two devices", withDevices(2))
	// All networks come back with the container, within one start.
	if err := e.Client().ContainerRestart(ctx, "many", container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	r.waitFor("docker:many", "with two devices again", withDevices(2))
}

func TestRealNotes(t *testing.T) {
	e := realEngine(t)
	ctx := t.Context()
	if err := e.Command(ctx, "ip", "link", "add", "parent0", "type", "veth", "peer", "name", "parent1").Run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Command(context.Background(), "ip", "link", "del", "parent0").Run() })
	if err := e.Network(ctx, "mac", "macvlan", map[string]string{"parent": "parent0"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Client().NetworkRemove(context.Background(), "mac") })
	_, r := realDocker(t, e)
	run(t, e, dockertest.Container{Name: "owner"})
	// Told by their cgroups, so that there is no note; runc keeps those of version 2
	// wherever they are mounted, beside version 1 too.
	told := cgroup.Read().Root != ""
	for _, c := range []struct {
		network, note string
		cgroup        bool
	}{
		{"host", "uses the host's network", told},
		{"none", "--network none", false},
		{"container:owner", "shares the network of container owner", false},
		{"mac", "eth0 is stacked", told},
	} {
		t.Run(c.network, func(t *testing.T) {
			run(t, e, dockertest.Container{Name: "noted", Network: c.network})
			w := r.waitFor("docker:noted", "with the note "+c.note, func(w Workload) bool {
				if c.cgroup {
					return len(w.Cgroups) == 1 && strings.Contains(w.Cgroups[0], w.ID)
				}
				return strings.Contains(w.Note, c.note)
			})
			if len(w.Devices) > 0 {
				t.Errorf("devices %v, want none", w.Devices)
			}
			if err := e.Remove(ctx, "noted"); err != nil {
				t.Fatal(err)
			}
			r.waitGone("docker:noted")
		})
	}
}

// The first process of a container leaves the network namespace that the engine made, before the
// agent sees it.
func TestRealProcessElsewhere(t *testing.T) {
	e := realEngine(t)
	ctx := t.Context()
	if err := e.Command(ctx, "ip", "link", "add", "below0", "type", "veth", "peer", "name", "below1").Run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Command(context.Background(), "ip", "link", "del", "below0").Run() })
	if err := e.Network(ctx, "stack", "macvlan", map[string]string{"parent": "below0"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Client().NetworkRemove(context.Background(), "stack") })
	leave := []string{"unshare", "-n", "sleep", "86400"}
	run(t, e, dockertest.Container{Name: "veth", Command: leave, Rights: []string{"SYS_ADMIN"}})
	run(t, e, dockertest.Container{Name: "macvlan", Network: "stack", Command: leave, Rights: []string{"SYS_ADMIN"}})
	for _, name := range []string{"veth", "macvlan"} {
		await(t, name+" has left", func() bool {
			info, err := e.Client().ContainerInspect(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			kinds, err := within.Devices(netnsPath("/proc", info.State.Pid))
			return err == nil && len(kinds) == 1
		})
	}
	_, r := realDocker(t, e)
	checkPeer(t, e, r.waitFor("docker:veth", "with its device", withDevices(1)).Devices[0])
	if cgroup.Read().Root == "" {
		t.Skip("no cgroup2 is mounted")
	}
	w := r.waitFor("docker:macvlan", "with its cgroup", func(w Workload) bool { return len(w.Cgroups) == 1 && strings.Contains(w.Cgroups[0], w.ID) })
	if w.Note != "" {
		t.Errorf("the note is %q, though the engine's file of the namespace shows the macvlan", w.Note)
	}
}

func TestRealEngineRestart(t *testing.T) {
	e := realEngine(t)
	run(t, e, dockertest.Container{Name: "stays", Restart: "always"})
	run(t, e, dockertest.Container{Name: "ends"})
	d, r := realDocker(t, e)
	first := r.waitFor("docker:stays", "with a device", withDevices(1))
	r.waitFor("docker:ends", "with a device", withDevices(1))
	if err := e.StopDaemon(); err != nil {
		t.Fatal(err)
	}
	r.wait("an empty list, as all containers have ended", func(list []Workload) bool { return len(list) == 0 })
	await(t, "the status unavailable", func() bool { s, _ := d.Status(); return s == workload.SourceUnavailable })
	if _, note := d.Status(); !strings.Contains(note, e.Socket) {
		t.Errorf("the note %q does not name the engine", note)
	}
	if err := e.StartDaemon(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := r.waitFor("docker:stays", "with a device", withDevices(1))
	if second.ID != first.ID || second.Devices[0].Ifindex == first.Devices[0].Ifindex {
		t.Errorf("before %+v, after the restart %+v: want the same container and another device", first, second)
	}
	await(t, "the status ok", func() bool { s, _ := d.Status(); return s == workload.SourceOK })
	run(t, e, dockertest.Container{Name: "later"})
	list := r.wait("later with a device", func(list []Workload) bool {
		w, ok := byKey(list, "docker:later")
		return ok && len(w.Devices) == 1
	})
	if _, ok := byKey(list, "docker:ends"); ok {
		t.Errorf("a container without restart policy is on the list:%s", show(list))
	}
}

// await polls where there is nothing to wait on.
func await(t *testing.T, what string, wanted func() bool) {
	t.Helper()
	deadline := time.Now().Add(patient)
	for !wanted() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patient, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// TestRealAbsentEngine sees that a source outlives the absence of its engine and
// claims nothing meanwhile.
func TestRealAbsentEngine(t *testing.T) {
	needRoot(t)
	d, err := NewDocker(logger(t), runLinks(t, ""), "unix://"+t.TempDir()+"/docker.sock")
	if err != nil {
		t.Fatal(err)
	}
	r := runSource(t, d)
	await(t, "a reason in the status", func() bool {
		state, note := d.Status()
		return state == workload.SourceUnavailable && strings.Contains(note, "docker.sock")
	})
	r.stop()
	if r.count != 0 {
		t.Errorf("%d lists reported by an engine that never answered", r.count)
	}
}

// TestRealChurn: every second container lives until it is reported; the others end at once, perhaps
// before anybody can look at them, and nothing of them may stay.
func TestRealChurn(t *testing.T) {
	e := realEngine(t)
	_, r := realDocker(t, e)
	run(t, e, dockertest.Container{Name: "survivor"})
	survivor := r.waitFor("docker:survivor", "with a device", withDevices(1))
	settled := openFiles(t)
	const containers, atOnce = 30, 3
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range containers {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			name := fmt.Sprintf("churn%d", i)
			if _, err := e.Run(t.Context(), dockertest.Container{Name: name}); err != nil {
				t.Error(err)
				return
			}
			if i%2 == 0 && !r.seen("docker:"+name) {
				t.Errorf("%s was not reported with a device within %s", name, patient)
			}
			if err := e.Remove(t.Context(), name); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	list := r.wait("the survivor alone", func(list []Workload) bool { return len(list) == 1 })
	if !slices.Equal(list[0].Devices, survivor.Devices) {
		t.Errorf("the survivor has %v, had %v", list[0].Devices, survivor.Devices)
	}
	await(t, "the number of open files to fall back", func() bool {
		e.Client().Close() // the test's own idle connections
		return openFiles(t) <= settled
	})
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// TestRealLatency measures how long a container's network is up before its
// device is reported, over 20 starts, one after the other and all at once, and
// how that compares with its first packet.
func TestRealLatency(t *testing.T) {
	const starts, bound = 20, 100 * time.Millisecond
	e := realEngine(t)
	_, r := realDocker(t, e)
	r.wait("the first list", func([]Workload) bool { return true })
	up, first, started := watchUp(t, e.Netns), watchPackets(t, e.Netns), watchStarts(t, e)
	for _, c := range []struct {
		name   string
		atOnce int
	}{{"one after the other", 1}, {"all at once", starts}} {
		t.Run(c.name, func(t *testing.T) {
			names := make(chan string, starts)
			for i := range starts {
				names <- fmt.Sprintf("quick%d-%d", c.atOnce, i)
			}
			close(names)
			var wg sync.WaitGroup
			for range c.atOnce {
				wg.Go(func() {
					for name := range names { // each sends as soon as it can
						_, err := e.Run(t.Context(), dockertest.Container{Name: name, Command: []string{"ping", "-q", "172.31.1.1"}})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			var toUp, toPacket, toEvent []time.Duration
			for i := range starts {
				name := fmt.Sprintf("quick%d-%d", c.atOnce, i)
				w := r.waitFor("docker:"+name, "with a device", withDevices(1))
				reported, index := r.firstSeen("docker:"+name), w.Devices[0].Ifindex
				toUp = append(toUp, reported.Sub(up.at(t, index)))
				toPacket = append(toPacket, reported.Sub(first.at(t, index)))
				toEvent = append(toEvent, reported.Sub(started.at(t, name)))
				if err := e.Remove(t.Context(), name); err != nil {
					t.Error(err)
				}
			}
			t.Logf("%d starts %s: from the network's coming up to the report %s; from the first packet %s; from the start event %s (negative: the report came first)",
				starts, c.name, spread(toUp), spread(toPacket), spread(toEvent))
			for i := range starts { // on a busy machine a process may come late to its CPU, but so does the container
				if toUp[i] > bound && toPacket[i] > 0 {
					t.Errorf("start %d sent unmarked packets for %s, until %s after its network came up, more than %s", i, toPacket[i], toUp[i], bound)
				}
			}
		})
	}
}

func spread(d []time.Duration) string {
	d = slices.Sorted(slices.Values(d))
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("min %.1f, median %.1f, max %.1f ms", ms(d[0]), ms(d[len(d)/2]), ms(d[len(d)-1]))
}

// moments holds when things happened for the first time, by what they happened to.
type moments struct {
	mu   sync.Mutex
	when map[any]time.Time
}

func newMoments() *moments { return &moments{when: map[any]time.Time{}} }

func (m *moments) note(key any) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, seen := m.when[key]; !seen {
		m.when[key] = now
	}
}

func (m *moments) at(t *testing.T, key any) (when time.Time) {
	t.Helper()
	await(t, fmt.Sprintf("news of %v", key), func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		when = m.when[key]
		return !when.IsZero()
	})
	return when
}

// watchUp tells when devices got their carrier, by index, with a netlink socket
// of its own.
func watchUp(t *testing.T, path string) *moments {
	t.Helper()
	ns, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	socket, err := nl.SubscribeAt(ns, netns.None(), unix.NETLINK_ROUTE, unix.RTNLGRP_LINK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(socket.Close)
	up := newMoments()
	go func() {
		for {
			messages, _, err := socket.Receive()
			if err != nil {
				return
			}
			for _, m := range messages {
				header := unix.NlMsghdr(m.Header)
				link, err := netlink.LinkDeserialize(&header, m.Data)
				if err == nil && m.Header.Type == unix.RTM_NEWLINK && link.Attrs().RawFlags&unix.IFF_LOWER_UP != 0 {
					up.note(link.Attrs().Index)
				}
			}
		}
	}()
	return up
}

// watchPackets tells when the first packet came in by each device, by index.
func watchPackets(t *testing.T, path string) *moments {
	t.Helper()
	var fd int
	h := &testHost{t: t, path: path}
	err := h.inside(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(htons(unix.ETH_P_ALL)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	socket := os.NewFile(uintptr(fd), "packets")
	t.Cleanup(func() { _ = socket.Close() })
	conn, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	first := newMoments()
	go func() {
		var buffer [64]byte
		for {
			var from unix.Sockaddr
			err := conn.Read(func(fd uintptr) bool {
				var err error
				_, from, err = unix.Recvfrom(int(fd), buffer[:], 0)
				return err != unix.EAGAIN
			})
			if err != nil {
				return
			}
			if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype != unix.PACKET_OUTGOING {
				first.note(ll.Ifindex)
			}
		}
	}()
	return first
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// watchStarts tells of the engine's start events, by the container's name.
func watchStarts(t *testing.T, e *dockertest.Engine) *moments {
	t.Helper()
	messages, errs := e.Client().Events(t.Context(), events.ListOptions{})
	started := newMoments()
	go func() {
		for {
			select {
			case m := <-messages:
				if m.Type == events.ContainerEventType && m.Action == events.ActionStart {
					started.note(m.Actor.Attributes["name"])
				}
			case <-errs:
				return
			}
		}
	}()
	return started
}
