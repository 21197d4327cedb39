// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/base/cgroup"
)

var waysTime = flag.Duration("ways", 10*time.Second, "how long each way out is measured")

const waysMax = 2_000_000 // bit/s that a workload may send

// waysLinks returns how many ways run at once, each over a link of its own. In virtual time the
// kernel's verifier takes some 5 s for each.
func waysLinks() int {
	if emulated() {
		return 5
	}
	return 8
}

// waysBed is a bed with links of 20 Mbit/s, a workload whose min others may want, and a cgroup
// of another.
type waysBed struct {
	*bed
	a      *agent
	victim *group
	lanes  chan int // links that no way uses
	number atomic.Int32
}

func newWaysBed(t *testing.T) *waysBed {
	if cgroup.Read().Root == "" {
		t.Skip("no cgroup2 is mounted")
	}
	links := waysLinks()
	w := &waysBed{bed: newBed(t, 1, links), victim: newGroup(t, "e2e-victim"), lanes: make(chan int, links)}
	w.capacity = 20_000_000
	for n := range links {
		bridge := w.host.device(w.nets[n].bridge)
		at := hostIn(n)
		w.host.must("address of the bridge", w.host.LinkSetHardwareAddr(bridge, at.mac))
		w.host.must("address of the bridge", w.host.AddrAdd(bridge, &netlink.Addr{IPNet: &net.IPNet{IP: at.ip, Mask: net.CIDRMask(16, 32)}}))
		w.host.knows(w.nets[n].bridge, serverAt(n))
		w.joinLast(n)
		w.lanes <- n
	}
	w.host.run("sysctl -qw net.ipv4.ip_forward=1") // as every host of containers
	w.configure(fmt.Sprintf("  - {name: victim, cgroup: %s}\nworkloads: {w1: {min: 40%%, weight: 1000}, victim: {weight: 1000}}\n", w.victim.folder))
	w.a = w.startWithin(time.Duration(links) * 20 * time.Second)
	w.steered(w.a)
	return w
}

// joinLast makes the uplink the youngest port of its bridge: of a frame to everybody it sends a
// copy. The oldest port sends the frame itself, which has its socket.
func (w *waysBed) joinLast(n int) {
	uplink := w.host.device(w.nets[n].uplink)
	w.host.must("leave the bridge", w.host.LinkSetNoMaster(uplink))
	w.host.must("join the bridge", w.host.LinkSetMaster(uplink, w.host.device(w.nets[n].bridge)))
	w.host.must("learn the server", w.host.NeighSet(&netlink.Neigh{LinkIndex: uplink.Attrs().Index, Family: unix.AF_BRIDGE,
		State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER, HardwareAddr: serverAt(n).mac}))
}

// hostIn returns the host's own endpoint in network n.
func hostIn(n int) endpoint {
	e := hostAt()
	e.ip, e.mac = append(net.IP(nil), e.ip...), append(net.HardwareAddr(nil), e.mac...)
	e.ip[1], e.mac[4] = byte(88+n), byte(n)
	return e
}

// run is one way out, tried by one workload over one link.
type run struct {
	*waysBed
	t       *testing.T
	way     way
	link    int
	name    string
	attack  attack
	from    *space
	in      *group
	first   *process // of a pod
	process *process
	// detached says that the agent has been told that the workload has ended.
	detached bool
}

// prepare makes the workload, with a max, and has the agent steer it.
func (r *run) prepare(k kind) {
	number := int(r.number.Add(1))
	r.name = fmt.Sprintf("a%d", number)
	at, bridge := workloadAt(r.link, 16+number), r.nets[r.link].bridge
	request := api.AttachRequest{Name: r.name, Policy: apitest.Change("max", fmt.Sprintf("%dbit", waysMax))}
	r.attack = attack{Way: r.way.name, Kind: k, Device: "eth0", Victim: int(r.a.workload("w1").Class),
		From: at.ip, FromMAC: at.mac, To: serverAt(r.link).ip, ToMAC: serverAt(r.link).mac}
	switch k {
	case onPort:
		r.from = newSpace(r.t, r.name)
		r.host.plug(bridge, "p"+r.name, r.from, "eth0", at)
	case onMacvlan:
		r.from = newSpace(r.t, r.name)
		r.stack(r.from, "eth0", bridge)
		r.from.must("address eth0", r.from.LinkSetHardwareAddr(r.from.device("eth0"), at.mac))
		r.address(r.from, "eth0", at)
	case onHost:
		r.from = r.host
		r.attack.Device, r.attack.Uplink, r.attack.FromMAC = bridge, r.nets[r.link].uplink, hostIn(r.link).mac
		r.address(r.host, bridge, at)
	}
	if k != onHost {
		r.from.knows("eth0", serverAt(r.link))
	}
	r.in = newGroup(r.t, "e2e-"+r.name)
	request.Cgroup = r.in.folder
	if k != onHost { // a pod, on a macvlan as Multus makes one
		r.name = "shop/" + r.name
		request.Name, request.Pod, request.Netns = r.name, r.from.name, "/run/netns/"+r.from.name
		r.first = launchIn(r.in, r.from, "stay") // the first process of a container is there when its network is known
	}
	r.srv.knows(fmt.Sprintf("eth%d", r.link), endpoint{at.ip, r.attack.FromMAC})
	if _, err := r.a.Attach(context.Background(), request, false); err != nil {
		r.t.Fatal(err)
	}
	await(r.t, 5*time.Second, r.name+" steered", func() error {
		w, err := r.a.Workload(context.Background(), r.name)
		if err == nil && (w.State != "active" || len(w.Devices)+len(w.Cgroups) == 0) {
			err = fmt.Errorf("it is %s (%s)", w.State, w.Note)
		}
		return err
	})
}

func (r *run) address(s *space, device string, at endpoint) {
	s.must("address "+device, s.AddrAdd(s.device(device), &netlink.Addr{IPNet: &net.IPNet{IP: at.ip, Mask: net.CIDRMask(16, 32)}}))
}

// launch starts the sender; it returns "ready", or why it cannot send.
func (r *run) launch() string {
	text, err := json.Marshal(r.attack)
	if err != nil {
		r.t.Fatal(err)
	}
	in := r.in
	if r.attack.Kind != onHost { // as a runtime makes one for each container of a pod
		in = newGroup(r.t, filepath.Base(r.in.folder)+"/container")
	}
	r.process = launchIn(in, r.from, "confine", string(text))
	line, err := r.process.out.ReadString('\n')
	if err != nil {
		r.t.Fatalf("the sender said %q: %v", line, err)
	}
	return strings.TrimSpace(line)
}

// moveToVictim moves the sender to the victim's cgroup.
func (r *run) moveToVictim() {
	procs := filepath.Join(r.victim.folder, "cgroup.procs")
	if err := os.WriteFile(procs, fmt.Append(nil, r.process.cmd.Process.Pid), 0); err != nil {
		r.t.Fatal(err)
	}
}

// figures are what one run has shown.
type figures struct {
	received float64 // bit/s at the server
	own      float64 // of them, the part that the link's qdisc counted as the workload's
}

// measure counts for a while what the server's device receives, and whose the qdisc says it is.
func (r *run) measure(lasts time.Duration) figures {
	number := r.a.workload(r.name).Class
	before := r.counters(r.link)
	received, begin := r.received()
	<-time.After(lasts)
	got, end := r.received()
	got -= received
	after := r.counters(r.link)
	own, all := uint64(0), uint64(0)
	for id, c := range after.Classes {
		sent := c.SentBytes - before.Classes[id].SentBytes
		if all += sent; uint16(id) == number {
			own = sent
		}
	}
	return figures{float64(got) * 8 / end.Sub(begin).Seconds(), float64(own) / float64(max(all, 1))}
}

// received returns how many bytes the server's device has received, and when that was, within
// 2 ms: a busy machine takes several tries.
func (r *run) received() (bytes uint64, at time.Time) {
	for range 100 {
		at = time.Now()
		bytes = r.srv.device(fmt.Sprintf("eth%d", r.link)).Attrs().Statistics.RxBytes
		if time.Since(at) < 2*time.Millisecond {
			break
		}
	}
	return bytes, at
}

// detach ends the workload, once.
func (r *run) detach() {
	if r.detached {
		return
	}
	r.detached = true
	if _, err := r.a.Detach(context.Background(), r.name, false); err != nil {
		r.t.Error(err)
	}
}

// end stops the sender, and waits until what it left in the queue has gone and its class with
// it: the next way has the link to itself.
func (r *run) end() {
	if r.process != nil {
		r.process.kill()
	}
	r.detach()
	await(r.t, 20*time.Second, "the link is quiet", func() error {
		before, _ := r.received()
		<-time.After(200 * time.Millisecond)
		if after, _ := r.received(); after != before {
			return fmt.Errorf("%d bytes more", after-before)
		}
		return nil
	})
}

// missing are texts by which commands say that the kernel lacks what a way is about.
var missing = []string{"Unknown device type", "qdisc kind is unknown", "We have an error talking to the kernel",
	"Requested type not found", "protocol not supported", "Protocol not supported", "protocol not available", "function not implemented", "No such device",
	"no such file or directory", "address family not supported", "Algorithm type not found"}

// try runs the way and holds it to its end.
func (r *run) try() {
	said := r.launch()
	if r.way.end != impossible || !strings.Contains(said, "not permitted") {
		for _, text := range missing {
			if strings.Contains(said, text) {
				r.t.Skipf("this kernel has no such thing: %s", said)
			}
		}
	}
	if r.way.end == impossible {
		if gap := r.gap("send past the qdisc"); said == "ready" && gap != "" {
			r.t.Skip("this kernel cannot refuse it, and weir status says so: " + gap)
		}
		if !strings.Contains(said, "not permitted") {
			r.t.Errorf("should be impossible; the sender said %q", said)
		}
		r.t.Logf("%s: %s", impossible, said)
		return
	}
	if said != "ready" {
		r.t.Fatalf("the sender said %q", said)
	}
	if r.way.after != nil {
		r.way.after(r)
	}
	<-time.After(time.Second) // the burst
	f := r.measure(*waysTime)
	r.t.Logf("max %.2f Mbit/s, received %.3f, %.1f %% of it in class %s", waysMax/1e6, f.received/1e6, 100*f.own, r.name)
	held := f.received <= 1.01*waysMax && f.own >= 0.99
	switch {
	case f.received < waysMax/4:
		r.t.Error("too little came to prove anything")
	case r.way.end == charged && !held:
		r.t.Error("it is not held")
	case r.way.end == notHeld && held:
		r.t.Error("it is held; say so in the list")
	}
	if r.way.end == notHeld && strings.Contains(r.way.condition, "weir get") {
		r.named()
	}
}

// named waits until weir get says what is not held.
func (r *run) named() {
	await(r.t, 10*time.Second, "note of "+r.name, func() error {
		if w := r.a.workload(r.name); !strings.Contains(w.Note, "CAP_NET_ADMIN") {
			return fmt.Errorf("it is %q", w.Note)
		}
		return nil
	})
}

// gap returns what weir status says that the link's backend cannot hold, "" if nothing of it has
// the text.
func (r *run) gap(text string) string {
	status, err := r.a.Status(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, gap := range status.Links[r.link].Gaps {
		if strings.Contains(gap, text) {
			return gap
		}
	}
	return ""
}

// Each way out ends as the list says: 10 s at a time, counted by the server's device and by
// the link's qdisc.
func TestWaysOut(t *testing.T) {
	b := newWaysBed(t)
	done := make(chan struct{})
	var running int
	for _, w := range ways {
		if w.elsewhere != "" {
			continue
		}
		for _, k := range w.kinds {
			running++
			link := <-b.lanes
			go func() {
				defer func() { b.lanes <- link; done <- struct{}{} }()
				t.Run(fmt.Sprintf("%s/%s", w.name, k), func(t *testing.T) {
					r := &run{waysBed: b, t: t, way: w, link: link}
					r.prepare(k)
					defer r.end()
					r.try()
				})
			}()
		}
	}
	for range running {
		<-done
	}
}

// Where the host routes between a container's bridge and the link, a strict check of sources at the
// bridge has the kernel answer no forged one.
func TestForgedSourcesOfARoutedBridge(t *testing.T) {
	host, box, srv := newSpace(t, "host"), newSpace(t, "box"), newSpace(t, "srv")
	at := hostIn(0).ip
	for _, command := range []string{"ip link add br0 type bridge", "ip link set br0 up", fmt.Sprintf("ip addr add %s/24 dev br0", at),
		"ip link add v0 master br0 type veth peer name eth0 netns " + box.name, "ip link set v0 up",
		"ip link add up0 type veth peer name eth0 netns " + srv.name, "ip addr add 10.99.0.1/24 dev up0", "ip link set up0 up", "sysctl -qw net.ipv4.conf.all.rp_filter=0"} {
		host.run(command)
	}
	for s, address := range map[*space]string{box: fmt.Sprintf("10.%d.%d.9", at.To4()[1], at.To4()[2]), srv: "10.99.0.2"} {
		s.run("ip addr add " + address + "/24 dev eth0")
		s.run("ip link set eth0 up")
	}
	srv.run("ping -c 1 -W 5 10.99.0.1") // they know each other
	x := &attack{Kind: onPort, From: at, To: net.IPv4(10, 99, 0, 2)}
	answers := func(by func(*attack) (send, error), check string) uint64 {
		host.run("sysctl -qw net.ipv4.conf.br0.rp_filter=" + check)
		before := srv.device("eth0").Attrs().Statistics.RxPackets
		box.must("send forged requests", box.do(func() error {
			one, err := by(x)
			for n := range uint64(50) {
				if err == nil {
					err = one(n)
				}
				<-time.After(time.Millisecond)
			}
			return err
		}))
		<-time.After(200 * time.Millisecond)
		return srv.device("eth0").Attrs().Statistics.RxPackets - before
	}
	for name, by := range map[string]func(*attack) (send, error){"echo": byEcho, "reset": byReset} {
		without, with := answers(by, "0"), answers(by, "1")
		t.Logf("%s: %d answers without a check, %d with one", name, without, with)
		if without < 50 {
			t.Errorf("%s: %d of 50 are answered without a check; this test proves nothing", name, without)
		}
		if with > 5 { // a few of other sorts
			t.Errorf("%s: %d of 50 are answered in spite of the check", name, with)
		}
	}
}
