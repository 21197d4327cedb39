// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
)

// testHost is a network namespace that plays the host. Nothing has a name in the
// file system: all ends with the test.
type testHost struct {
	t    *testing.T
	path string
	*netlink.Handle
}

func newTestHost(t *testing.T) *testHost {
	t.Helper()
	needRoot(t)
	path, _ := newTestNetns(t)
	ns, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return &testHost{t, path, h}
}

// newTestNetns makes a namespace, held by a descriptor until end is called or
// the test ends.
func newTestNetns(t *testing.T) (path string, end func()) {
	t.Helper()
	ns, err := nsthread.New(func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	end = func() {
		if ns.IsOpen() {
			_ = ns.Close()
		}
	}
	t.Cleanup(end)
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(ns)), end
}

// veth makes a pair whose other end is in another namespace, and returns the
// index of the host's end.
func (h *testHost) veth(name, inside string) int {
	h.t.Helper()
	ns, err := netns.GetFromPath(inside)
	if err != nil {
		h.t.Fatal(err)
	}
	defer ns.Close()
	pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "eth" + name, PeerNamespace: netlink.NsFd(ns)}
	pair.Name = name
	if err := h.LinkAdd(pair); err != nil {
		h.t.Fatal(err)
	}
	return h.index(name)
}

func (h *testHost) index(name string) int {
	h.t.Helper()
	found, err := h.LinkByName(name)
	if err != nil {
		h.t.Fatal(err)
	}
	return found.Attrs().Index
}

func (h *testHost) delete(name string) {
	h.t.Helper()
	found, err := h.LinkByName(name)
	if err == nil {
		err = h.LinkDel(found)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *testHost) rename(from, to string) {
	h.t.Helper()
	found, err := h.LinkByName(from)
	if err == nil {
		err = h.LinkSetName(found, to)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func deviceNames(w Workload) []string {
	var names []string
	for _, d := range w.Devices {
		names = append(names, d.Name)
	}
	return names
}

func having(names ...string) func(Workload) bool {
	return func(w Workload) bool { return slices.Equal(deviceNames(w), names) }
}

func TestNetnsComesAndGoes(t *testing.T) {
	h := newTestHost(t)
	dir := filepath.Join(t.TempDir(), "netns") // comes later
	n := newNetns(logger(t), runLinks(t, h.path), dir)
	if err := n.Add("blue", "blue", Wait); err != nil {
		t.Fatal(err)
	}
	r := runSource(t, n)
	w := r.waitFor("netns:blue", "without devices", having())
	if w.Name != "blue" || w.Kind != "netns" || w.Note != "" {
		t.Errorf("unexpected workload %+v", w)
	}

	inside, end := newTestNetns(t)
	h.veth("v1", inside)
	name(t, inside, filepath.Join(dir, "blue")) // the veth was there before the name: only the folder tells
	w = r.waitFor("netns:blue", "with v1", having("v1"))
	if w.Devices[0].PeerNetns != filepath.Join(dir, "blue") || w.Devices[0].PeerIfindex == 0 {
		t.Errorf("the other end is in %q with index %d", w.Devices[0].PeerNetns, w.Devices[0].PeerIfindex)
	}
	h.veth("v2", inside)
	r.waitFor("netns:blue", "with both", having("v1", "v2"))
	h.delete("v1")
	r.waitFor("netns:blue", "with v2", having("v2"))

	unname(t, filepath.Join(dir, "blue"))
	end()
	r.waitFor("netns:blue", "without devices again", having())

	another, _ := newTestNetns(t)
	name(t, another, filepath.Join(dir, "blue"))
	h.veth("v3", another)
	r.waitFor("netns:blue", "in its next life", having("v3"))
	if err := n.Remove("blue"); err != nil {
		t.Fatal(err)
	}
	r.waitGone("netns:blue")
}

// name gives a namespace a name as "ip netns" does: an empty file first, and the
// namespace mounted over it.
func name(t *testing.T, ns, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(ns, path, "none", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) }) // the test may have done it
}

func unname(t *testing.T, path string) {
	t.Helper()
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestNetnsRefusals(t *testing.T) {
	h := newTestHost(t)
	dir := t.TempDir()
	inside, _ := newTestNetns(t)
	name(t, inside, filepath.Join(dir, "red"))
	if err := os.WriteFile(filepath.Join(dir, "plain"), nil, 0o444); err != nil {
		t.Fatal(err)
	}
	n := newNetns(logger(t), runLinks(t, h.path), dir)
	if err := n.Add("taken", "red"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, workload, netns, want string }{
		{"unknown", "w", "blue", `network namespace "blue" does not exist (` + dir + `/blue); there are: plain, red`},
		{"unknown path", "w", "/nowhere/blue", `network namespace "/nowhere/blue" does not exist`},
		{"no namespace", "w", "plain", "is no network namespace"},
		{"the host's own", "w", h.path, "is the host's own network namespace"},
		{"empty", "w", "", "give a name in " + dir + " or a path"},
		{"bad name", "two words", "red", `workload name "two words": use letters`},
		{"name taken", "taken", "red", `workload "taken" is attached already, to ` + dir + `/red`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := n.Add(c.workload, c.netns); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if err := n.Remove("other"); err == nil || !strings.Contains(err.Error(), `no workload "other" is attached; attached: taken`) {
		t.Errorf("remove: %v", err)
	}
}

func TestDevicesComeAndGo(t *testing.T) {
	h := newTestHost(t)
	inside, _ := newTestNetns(t)
	links := runLinks(t, h.path)
	d := newDevices(logger(t), links)
	if err := d.Add("vm", "tap1", Wait); err != nil {
		t.Fatal(err)
	}
	r := runSource(t, d)
	r.waitFor("dev:vm", "without a device", having())
	h.tap("tap1")
	r.waitFor("dev:vm", "with its tap", having("tap1"))
	h.rename("tap1", "tap2")
	first := r.waitFor("dev:vm", "with the tap's new name", having("tap2"))
	h.veth("tap1", inside) // takes the name over
	if err := d.Add("other", "tap1"); err == nil || !strings.Contains(err.Error(), `belongs to workload "vm" already`) {
		t.Errorf("the name of vm's device was given away: %v", err)
	}
	r.waitFor("dev:vm", "as it was", having("tap2"))
	h.delete("tap2")
	second := r.waitFor("dev:vm", "with the device that has the name now", having("tap1"))
	if first.Devices[0].Ifindex == second.Devices[0].Ifindex || second.Devices[0].PeerIfindex == 0 {
		t.Errorf("before %+v, now %+v: want another index, and the other end's", first.Devices[0], second.Devices[0])
	}
	if err := d.Remove("vm"); err != nil {
		t.Fatal(err)
	}
	r.waitGone("dev:vm")
}

func (h *testHost) tap(name string) {
	h.t.Helper()
	tap := &netlink.Tuntap{LinkAttrs: netlink.NewLinkAttrs(), Mode: netlink.TUNTAP_MODE_TAP}
	tap.Name = name
	add := func() error { return netlink.LinkAdd(tap) } // by ioctl, so in the thread's namespace
	if err := h.inside(add); err != nil {
		h.t.Skip("no taps here: ", err)
	}
}

// inside runs f in the host's namespace.
func (h *testHost) inside(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread stays in there and ends
		ns, err := netns.GetFromPath(h.path)
		if err == nil {
			defer ns.Close()
			err = netns.Set(ns)
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

func TestDevicesRefusals(t *testing.T) {
	d := newDevices(logger(t), &fakeLinks{links: []link{
		{Index: 1, Name: "lo"}, {Index: 2, Name: "eth0", Kind: "device"}, {Index: 3, Name: "veth3", Kind: "veth"}, {Index: 4, Name: "tap4", Kind: "tuntap"}, {Index: 5, Name: "ifb5", Kind: "ifb"}}})
	if err := d.Add("taken", "veth3"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, workload, device, want string }{
		{"unknown", "w", "veth9", `device "veth9" does not exist; there are: veth3, tap4`},
		{"loopback", "w", "lo", "the host's own packets"},
		{"IFB", "w", "ifb5", `device "ifb5" is an IFB, to which filters redirect packets of another device: name that device`},
		{"empty", "w", "", "give the name of a network device"},
		{"too long", "w", "a-name-of-sixteen", "at most 15 letters"},
		{"bad name", "", "tap4", `workload name "": use letters`},
		{"name taken", "taken", "tap4", `workload "taken" is attached already, to veth3`},
		{"device taken", "w", "veth3", `device "veth3" belongs to workload "taken" already`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := d.Add(c.workload, c.device); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if err := d.Remove("other"); err == nil || !strings.Contains(err.Error(), "attached: taken") {
		t.Errorf("remove: %v", err)
	}
}

// TestLinksForgetNamespaces sees that a number that the kernel gives to the next
// namespace does not bring the former one's devices along.
func TestLinksForgetNamespaces(t *testing.T) {
	h := newTestHost(t)
	links := runLinks(t, h.path)
	changes, stop := links.Watch()
	defer stop()
	for round := range 5 {
		inside, end := newTestNetns(t)
		index := h.veth(fmt.Sprintf("v%d", round), inside)
		var ns *namespace
		for len(links.devices(ns)) == 0 {
			<-changes
			ns, _ = links.resolve(inside)
		}
		if devices := links.devices(ns); len(devices) != 1 || devices[0].Ifindex != index {
			t.Fatalf("round %d: devices %v, want only index %d", round, devices, index)
		}
		end()
		for links.alive(ns) || len(links.list()) > 1 { // lo stays
			<-changes
		}
		if len(links.devices(ns)) > 0 {
			t.Fatalf("round %d: a dead namespace has devices", round)
		}
	}
	if rest := links.unclaimed(nil); len(rest) > 0 {
		t.Errorf("numbers %v are still in use", rest)
	}
}

// TestLinksResync sees that what was missed is found.
func TestLinksResync(t *testing.T) {
	h := newTestHost(t)
	links, err := NewLinks(logger(t), h.path) // not run: it misses everything
	if err != nil {
		t.Fatal(err)
	}
	defer links.Close()
	inside, _ := newTestNetns(t)
	h.veth("missed", inside)
	ns, _ := links.resolve(inside)
	if err := links.resync(); err != nil {
		t.Fatal(err)
	}
	if links.alive(ns) {
		t.Error("a namespace outlived the resync, in which its end may have been missed")
	}
	ns, err = links.resolve(inside)
	if err != nil || len(links.devices(ns)) != 1 {
		t.Errorf("devices %v, error %v; want the one that was missed", links.devices(ns), err)
	}
}

func TestNewLinksRefusals(t *testing.T) {
	needRoot(t)
	for _, path := range []string{"/nowhere", "/dev/null"} {
		if _, err := NewLinks(logger(t), path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one that names it", path, err)
		}
	}
}

// TestSourcesLeaveNothingOpen runs and ends every kind of source several times.
func TestSourcesLeaveNothingOpen(t *testing.T) {
	h := newTestHost(t)
	cycle := func() {
		t.Run("cycle", func(t *testing.T) {
			links := runLinks(t, h.path)
			runSource(t, NewNetns(logger(t), links)).wait("a list", func([]Workload) bool { return true })
			runSource(t, NewDevices(logger(t), links)).wait("a list", func([]Workload) bool { return true })
			d, err := NewDocker(logger(t), links, "unix:///nowhere/docker.sock")
			if err != nil {
				t.Fatal(err)
			}
			runSource(t, d)
		})
	}
	cycle()
	before := openFiles(t)
	for range 5 {
		cycle()
	}
	await(t, "all files to be closed", func() bool { return openFiles(t) <= before })
}

// TestLinksUnderFlood: while a container sets its end of a pair up and down without end, Links
// still sees within a second what the host does to that pair and to other devices.
func TestLinksUnderFlood(t *testing.T) {
	h := newTestHost(t)
	links := runLinks(t, h.path)
	inside, _ := newTestNetns(t)
	h.veth("index", inside) // so that the ends of the next have two indexes: else the kernel tells once a second
	h.tap("another")
	h.veth("v1", inside)
	if err := h.LinkSetUp(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: h.index("v1")}}); err != nil {
		t.Fatal(err)
	}
	batch := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(batch, []byte(strings.Repeat("link set ethv1 down\nlink set ethv1 up\n", 20_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	flood := exec.Command("nsenter", "--net="+inside, "sh", "-c", "while ip -batch "+batch+"; do :; done")
	flood.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := flood.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-flood.Process.Pid, syscall.SIGKILL); _ = flood.Wait() }()
	time.Sleep(500 * time.Millisecond)
	for round := range 5 {
		for _, name := range []string{"v1", "another"} {
			now := fmt.Sprintf("%s.%d", name, round)
			h.rename(name, now)
			begin := time.Now()
			await(t, "the name "+now, func() bool { return links.IndexOf(now) != 0 })
			if took := time.Since(begin); took > time.Second {
				t.Errorf("the name %s was seen after %v, want a second", now, took)
			}
			h.rename(now, name)
		}
	}
	h.delete("v1")
	await(t, "the end of v1", func() bool { return links.IndexOf("v1") == 0 })
}

// TestWatchersOfDevices: who watches is woken by a device that becomes a port of a bridge and by
// one whose MTU changes, and not by one whose other end goes down.
func TestWatchersOfDevices(t *testing.T) {
	h := newTestHost(t)
	links := runLinks(t, h.path)
	inside, _ := newTestNetns(t)
	h.veth("v1", inside)
	if err := h.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br1"}}); err != nil {
		t.Fatal(err)
	}
	await(t, "the bridge", func() bool { return links.IndexOf("br1") != 0 })
	woken, stop := links.Watch()
	defer stop()
	at := func() netlink.Link { return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: h.index("v1")}} }
	for _, change := range []struct {
		what string
		do   func() error
		told bool
	}{
		{"a port of a bridge", func() error { return h.LinkSetMasterByIndex(at(), h.index("br1")) }, true},
		{"another MTU", func() error { return h.LinkSetMTU(at(), 1400) }, true},
		{"the other end is down", func() error {
			return exec.Command("nsenter", "--net="+inside, "ip", "link", "set", "ethv1", "down").Run()
		}, false},
	} {
		time.Sleep(300 * time.Millisecond) // what came before has been taken in
		for len(woken) > 0 {
			<-woken
		}
		if err := change.do(); err != nil {
			t.Fatalf("%s: %v", change.what, err)
		}
		told := false
		select {
		case <-woken:
			told = true
		case <-time.After(time.Second):
		}
		if told != change.told {
			t.Errorf("%s: told %v, want %v", change.what, told, change.told)
		}
	}
}
