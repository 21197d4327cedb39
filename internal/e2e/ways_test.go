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

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/cgroup"
)

var waysTime = flag.Duration("ways", 10*time.Second, "how long each way out is measured")

const (
	waysMax   = 2_000_000 // bit/s that a workload may send
	waysLinks = 8         // ways that run at once, each over a link of its own
)

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
	w := &waysBed{bed: newBed(t, 1, waysLinks), victim: newGroup(t, "e2e-victim"), lanes: make(chan int, waysLinks)}
	w.capacity = 20_000_000
	for n := range waysLinks {
		bridge := w.host.device(w.nets[n].bridge)
		at := hostIn(n)
		w.host.must("address of the bridge", w.host.LinkSetHardwareAddr(bridge, at.mac))
		w.host.must("address of the bridge", w.host.AddrAdd(bridge, &netlink.Addr{IPNet: &net.IPNet{IP: at.ip, Mask: net.CIDRMask(16, 32)}}))
		w.host.knows(w.nets[n].bridge, serverAt(n))
		w.lanes <- n
	}
	w.host.run("sysctl -qw net.ipv4.ip_forward=1") // as every host of containers
	w.configure(fmt.Sprintf("  - {name: victim, cgroup: %s}\nworkloads: {w1: {min: 40%%, weight: 1000}, victim: {weight: 1000}}\n", w.victim.folder))
	w.a = w.start()
	w.steered(w.a)
	return w
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
	process *process
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
		request.Netns = r.name
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
	if k != onPort {
		r.in = newGroup(r.t, "e2e-"+r.name)
		request.Cgroup = r.in.folder
	}
	if k == onMacvlan { // as Multus makes one
		r.name = "shop/" + r.name
		request.Name, request.Pod, request.Netns = r.name, r.from.name, "/run/netns/"+r.from.name
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
	r.process = launchIn(r.in, r.from, "confine", string(text))
	r.t.Cleanup(r.process.kill) // the host's outlasts this way
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
func (r *run) measure() figures {
	number := r.a.workload(r.name).Class
	before, received, begin := r.counters(r.link), r.received(), time.Now()
	<-time.After(*waysTime)
	took := time.Since(begin)
	got := r.received() - received
	after := r.counters(r.link)
	own, all := uint64(0), uint64(0)
	for id, c := range after.Classes {
		sent := c.SentBytes - before.Classes[id].SentBytes
		if all += sent; uint16(id) == number {
			own = sent
		}
	}
	return figures{float64(got) * 8 / took.Seconds(), float64(own) / float64(max(all, 1))}
}

func (r *run) received() uint64 {
	return r.srv.device(fmt.Sprintf("eth%d", r.link)).Attrs().Statistics.RxBytes
}

// missing are texts by which commands say that the kernel lacks what a way is about.
var missing = []string{"Unknown device type", "qdisc kind is unknown", "We have an error talking to the kernel",
	"Requested type not found", "protocol not supported", "protocol not available", "function not implemented", "No such device",
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
	f := r.measure()
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
	if r.way.end == notHeld {
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

// Each way out ends as the list says: 10 s at a time, counted by the server's device and by
// the link's qdisc.
func TestWaysOut(t *testing.T) {
	b := newWaysBed(t)
	done := make(chan struct{})
	var running int
	for _, w := range ways {
		for _, k := range w.kinds {
			running++
			link := <-b.lanes
			go func() {
				defer func() { b.lanes <- link; done <- struct{}{} }()
				t.Run(fmt.Sprintf("%s/%s", w.name, k), func(t *testing.T) {
					r := &run{waysBed: b, t: t, way: w, link: link}
					r.prepare(k)
					r.try()
				})
			}()
		}
	}
	for range running {
		<-done
	}
}
