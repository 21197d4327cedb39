// SPDX-License-Identifier: Apache-2.0

package ifb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/bpf"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/hosttest"
	"weir/internal/host/dataplane/tc"
)

const mbit = hosttest.Mbit

// bed is a host that steers what its containers receive.
type bed struct {
	*hosttest.Host
	kind string // of the backend on the IFB
}

func newBed(t *testing.T, kind string, containers int) *bed {
	t.Helper()
	need(t, kind)
	return &bed{hosttest.New(t, containers), kind}
}

// need skips a test with a backend that this kernel does not have.
func need(t *testing.T, kind string) {
	t.Helper()
	supported := tc.Supported
	if kind == "bpf" {
		supported = bpf.Supported
	}
	if err := supported(); err != nil {
		t.Skipf("skipped: %v", err)
	}
}

// open opens a backend of the bed's kind, as the agent does.
func (b *bed) open(name string, opts dataplane.Options) (dataplane.Backend, error) {
	if b.kind == "bpf" {
		return bpf.New(name, opts, b.Log())
	}
	return tc.New(name, opts, b.Log())
}

func (b *bed) backend(local bool) *Backend {
	b.T.Helper()
	backend, err := New(End{IFB: device.IFB{Link: "up0", Ingress: true}, Local: local}, b.Opts, b.open, b.Log())
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { backend.Close() })
	return backend
}

// state is the ingress of up0 with classes of the containers.
func (b *bed) state(capacity policy.Rate, classes ...plan.Class) plan.State {
	s := b.State(plan.Link{Direction: policy.Ingress, Capacity: capacity}, classes...)
	s.Classes[0].Discipline = discipline.SFQ
	for i := range classes {
		s.Classes[1+i].Discipline = discipline.FIFO
	}
	return s
}

// kinds runs a test with each backend that this kernel has.
func kinds(t *testing.T, test func(t *testing.T, kind string)) {
	for _, kind := range []string{"bpf", "tc"} {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

// What came by the link is counted in the receiver's class; what came from the host
// or another container only if it is asked for. Every packet arrives.
func TestWhatCameByTheLink(t *testing.T) {
	for _, local := range []bool{false, true} {
		t.Run(fmt.Sprintf("local %v", local), func(t *testing.T) {
			kinds(t, func(t *testing.T, kind string) {
				b := newBed(t, kind, 2)
				backend := b.backend(local)
				b.Set(backend, b.state(100*mbit, plan.Class{Weight: 1}, plan.Class{Weight: 1}))
				b.markOutward()
				counted := func(ping func()) [3]uint64 {
					before := b.Counters(backend)
					ping()
					after := b.Counters(backend)
					var n [3]uint64
					for id := range n {
						n[id] = after.Classes[plan.ClassID(id)].SentPackets - before.Classes[plan.ClassID(id)].SentPackets
					}
					return n
				}
				want := func(what string, got, least [3]uint64) {
					t.Helper()
					for id := range got {
						if got[id] < least[id] || got[id] > least[id]+10 { // ARP comes to it
							t.Errorf("%s: %v packets by class, want %v and a few", what, got, least)
						}
					}
				}
				pings := []string{"ping", "-q", "-c", "40", "-i", "0.01"}
				want("from the server to container 2", counted(func() { b.Server.Run(append(pings, "10.77.0.2")...) }), [3]uint64{0, 0, 40})
				// Their answers come by the link as well.
				want("from container 1 to the server", counted(func() { b.Boxes[0].Run(append(pings, "10.77.0.254")...) }), [3]uint64{0, 40, 0})
				inside := [3]uint64{}
				if local {
					inside = [3]uint64{0, 40, 40}
				}
				want("from container 1 to container 2", counted(func() { b.Boxes[0].Run(append(pings, "10.77.0.2")...) }), inside)
				if local {
					inside[2] = 0
				}
				want("from the host to container 1", counted(func() { b.Netns.Run(append(pings, "10.77.0.1")...) }), inside)
			})
		})
	}
}

// markOutward has a backend steer the link's egress too, which marks what containers
// send.
func (b *bed) markOutward() {
	b.T.Helper()
	egress, err := b.open("up0", b.Opts)
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { egress.Close() })
	s := b.state(100*mbit, make([]plan.Class, len(b.Ports))...)
	for i := range s.Classes {
		s.Classes[i].Weight = 1
	}
	if err := egress.Set(context.Background(), s); err != nil {
		b.T.Fatal(err)
	}
}

// A VLAN on the link, with a bridge on it: what comes by it comes by the link.
func TestSources(t *testing.T) {
	b := newBed(t, "tc", 1)
	if out, err := exec.Command("ip", "link", "add", "link", "up0", "name", "up0.7", "type", "vlan", "id", "7").CombinedOutput(); err != nil {
		t.Skipf("skipped: this kernel has no VLANs: %s", bytes.TrimSpace(out))
	}
	b.Netns.Run("ip", "link", "add", "br7", "type", "bridge")
	b.Netns.Run("ip", "link", "set", "up0.7", "master", "br7")
	conn, err := device.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	index := func(name string) int {
		dev, err := conn.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		return dev.Index
	}
	link, err := conn.Lookup("up0")
	if err != nil {
		t.Fatal(err)
	}
	got, err := conn.Sources(link)
	want := []int{index("up0"), index("br0"), index("up0.7"), index("br7")}
	if err != nil || !sameSet(got, want) || got[0] != link.Index {
		t.Errorf("sources %v, %v; want %v", got, err, want)
	}
}

func sameSet(a, b []int) bool {
	seen := map[int]int{}
	for _, v := range a {
		seen[v]++
	}
	for _, v := range b {
		seen[v]--
	}
	for _, n := range seen {
		if n != 0 {
			return false
		}
	}
	return true
}

// Downloads are divided by weight and held by min and max.
func TestDownloadsAreShared(t *testing.T) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("skipped: needs iperf3")
	}
	kinds(t, func(t *testing.T, kind string) {
		b := newBed(t, kind, 3)
		backend := b.backend(false)
		s := b.state(60*mbit, plan.Class{Weight: 1, Min: 20 * mbit}, plan.Class{Weight: 1}, plan.Class{Weight: 2, Max: 15 * mbit})
		b.Set(backend, s)
		ctx, cancel := context.WithCancel(context.Background())
		ran := make(chan error, 1)
		go func() { ran <- backend.Run(ctx) }()
		defer func() { cancel(); <-ran }()
		for i := range b.Boxes {
			b.download(i)
		}
		<-time.After(2 * time.Second)
		from := b.Counters(backend)
		<-time.After(4 * time.Second)
		to := b.Counters(backend)
		var sum float64
		for id, want := range map[plan.ClassID]float64{1: 22.5, 2: 22.5, 3: 15} {
			rate := float64(to.Classes[id].SentBytes-from.Classes[id].SentBytes) * 8e-6 / to.At.Sub(from.At).Seconds()
			t.Logf("class %d: %.2f Mbit/s, ideal %.1f", id, rate, want)
			sum += rate
			if rate < want-2 || rate > want+2 {
				t.Errorf("class %d gets %.2f Mbit/s, want %.1f +- 2", id, rate, want)
			}
		}
		if sum > 61 {
			t.Errorf("%.1f Mbit/s come in through a link of 60", sum)
		}
	})
}

// download starts an iperf3 from the server to container i.
func (b *bed) download(i int) {
	b.T.Helper()
	port := fmt.Sprint(5201 + i)
	server := b.Boxes[i].Command("iperf3", "-s", "-1", "-p", port)
	client := b.Server.Command("iperf3", "-c", fmt.Sprintf("10.77.0.%d", i+1), "-p", port, "-t", "100")
	for _, cmd := range []*exec.Cmd{server, client} {
		if err := cmd.Start(); err != nil {
			b.T.Fatal(err)
		}
		b.T.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGINT); _ = cmd.Wait() })
		<-time.After(300 * time.Millisecond)
	}
}

// Another backend, such as that of a new agent, finds the state of the first; a state that is set
// twice changes nothing; and after Cleanup all is as before.
func TestAdoptAndCleanUp(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		b := newBed(t, kind, 2)
		qdiscs, links := b.Netns.Run("tc", "qdisc", "show"), b.Netns.Run("ip", "-o", "link")
		want := b.state(100*mbit, plan.Class{Weight: 3, Min: 10 * mbit}, plan.Class{Weight: 1, Max: 5 * mbit})
		if kind == "bpf" {
			for i := range want.Classes {
				want.Classes[i].AQM.Target, want.Classes[i].AQM.Interval = discipline.AQM{}.Of(want.Classes[i].Discipline)
			}
		}
		first := b.backend(false)
		if state, err := first.State(); err != nil || len(state.Classes) != 0 {
			t.Errorf("before the first Set: %+v, %v", state, err)
		}
		b.Set(first, want)
		first.Close()
		filters := b.atEgress("c1")
		second := b.backend(false)
		have, err := second.State()
		if err != nil {
			t.Fatal(err)
		}
		if changes := plan.Diff(have, want); len(changes) > 0 {
			t.Errorf("a new agent would change %v", changes)
		}
		b.Set(second, want)
		if again := b.atEgress("c1"); again != filters {
			t.Errorf("filters were\n%sand are\n%s", filters, again)
		}
		want.Ports = want.Ports[:1]
		b.Set(second, want)
		if left := b.atEgress("c2"); left != "" {
			t.Errorf("left at a port that is gone: %s", left)
		}
		if err := second.Cleanup(context.Background()); err != nil {
			t.Fatal(err)
		}
		if now := b.Netns.Run("tc", "qdisc", "show"); now != qdiscs {
			t.Errorf("qdiscs after cleanup:\n%s\nbefore:\n%s", now, qdiscs)
		}
		if now := b.Netns.Run("ip", "-o", "link"); now != links {
			t.Errorf("devices after cleanup:\n%s\nbefore:\n%s", now, links)
		}
		if left, _ := os.ReadDir(b.Opts.StateDir); len(left) > 0 {
			t.Errorf("state left: %v", left)
		}
		if left, _ := filepath.Glob(filepath.Join(b.Opts.BPFFS, "netns-*", "*")); len(left) > 0 {
			t.Errorf("pins left: %v", left)
		}
		b.Server.Run("ping", "-q", "-c", "2", "-i", "0.01", "10.77.0.1")
	})
}

// Another program removes the IFB: a policy that is set again holds again.
func TestHeals(t *testing.T) {
	b := newBed(t, "tc", 1)
	backend := b.backend(false)
	s := b.state(100*mbit, plan.Class{Weight: 1})
	b.Set(backend, s)
	b.Netns.Run("ip", "link", "del", "weir-in-up0")
	if _, err := backend.Counters(); !errors.Is(err, dataplane.ErrNoDevice) {
		t.Errorf("counters of a device that is gone: %v", err)
	}
	b.Set(backend, s)
	b.Server.Run("ping", "-q", "-c", "2", "-i", "0.01", "10.77.0.1")
	if n := b.Counters(backend).Classes[1].SentPackets; n < 2 {
		t.Errorf("%d packets counted", n)
	}
}

func TestNames(t *testing.T) {
	for want, of := range map[string]device.IFB{
		"weir-in-eth0":    {Link: "eth0", Ingress: true},
		"weir-in-wlp0s20": {Link: "wlp0s20", Ingress: true},
		"weir-z-eth0-wan": {Link: "eth0", Zone: "wan"},
		"weir-zi-eth0-a":  {Link: "eth0", Zone: "a", Ingress: true},
		"weir-zi-eth1013": {Link: "eth0", Zone: "wan", Ingress: true},
	} {
		if got := of.Name(); got != want {
			t.Errorf("%s: %s, want %s", of, got, want)
		}
	}
	a, b := device.IFB{Link: "enp0s31f6", Ingress: true}.Name(), device.IFB{Link: "enp0s31f7", Ingress: true}.Name()
	if len(a) > 15 || a == b {
		t.Errorf("names %s and %s", a, b)
	}
}
