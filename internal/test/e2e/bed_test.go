// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/base/cgroup/cgrouptest"
	"weir/internal/core/policy"
	"weir/internal/lab/meter"
)

// bed is a host with workloads and a server, see the package's comment.
type bed struct {
	t        testing.TB
	dir      string // the agent's socket, state and configuration
	host     *space
	srv      *space
	boxes    []*space
	nets     []network
	capacity policy.Rate
	limit    *cgrouptest.Memory // of the agent; nil = none
	receiver *process
	flows    *uint64 // streams started so far
}

// network is one uplink with the bridge before it.
type network struct {
	bridge, uplink string
	meter          *meter.Arrivals
}

// meterLength bounds a test.
const meterLength = 5 * time.Minute

// newBed makes a bed with a number of workloads, each in all of the networks.
func newBed(t testing.TB, workloads, networks int) *bed {
	t.Helper()
	return newNamedBed(t, "", workloads, networks)
}

// newNamedBed makes a bed whose namespaces have names that begin with prefix.
// All beds share one BPF file system, as agents on one machine do.
func newNamedBed(t testing.TB, prefix string, workloads, networks int) *bed {
	t.Helper()
	b := &bed{t: t, flows: new(uint64), dir: filepath.Join("/run/e2e", prefix+"bed"), capacity: policy.Rate(*capacity) * 1e6}
	mountBPFFS(t)
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(b.dir) })
	b.host, b.srv = newSpace(t, prefix+"host"), newSpace(t, prefix+"srv")
	for n := range networks {
		b.nets = append(b.nets, network{bridge: fmt.Sprintf("br%d", n), uplink: fmt.Sprintf("up%d", n)})
		b.host.bridge(b.nets[n].bridge)
		b.plugServer(n)
	}
	for i := range workloads {
		b.addBox(newSpace(t, fmt.Sprintf("%sw%d", prefix, i+1)), i+1)
	}
	for n := range networks {
		b.measure(n, workloads)
	}
	b.receiver = launch(b.srv, "receive")
	b.receiver.read()
	return b
}

// mountBPFFS gives a test a BPF file system in the place that agents use. It stays empty
// if the test before left nothing; its content goes with the test.
func mountBPFFS(t testing.TB) {
	t.Helper()
	if _, err := os.Stat("/sys/fs/bpf/e2e"); err == nil {
		return // this test's own, of its first bed
	}
	if err := unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=0700"); err != nil {
		t.Fatalf("mount a BPF file system: %v", err)
	}
	if err := os.Mkdir("/sys/fs/bpf/e2e", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount("/sys/fs/bpf", unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func (b *bed) plugServer(n int) {
	b.t.Helper()
	b.host.plug(b.nets[n].bridge, b.nets[n].uplink, b.srv, fmt.Sprintf("eth%d", n), serverAt(n))
}

// addBox connects workload i to every network, as devices w1, w1n1, ... of the
// host.
func (b *bed) addBox(box *space, i int) {
	b.t.Helper()
	b.boxes = append(b.boxes, box)
	for n := range b.nets {
		b.plugBox(box, n, i)
	}
}

func (b *bed) plugBox(box *space, n, i int) {
	b.t.Helper()
	eth := fmt.Sprintf("eth%d", n)
	b.host.plug(b.nets[n].bridge, portName(n, i), box, eth, workloadAt(n, i))
	box.knows(eth, serverAt(n))
	b.srv.knows(eth, workloadAt(n, i))
}

// ipv6 gives workloads and server IPv6 addresses in network 0.
func (b *bed) ipv6() {
	b.t.Helper()
	b.srv.addIPv6("eth0", serverAt(0))
	for i, box := range b.boxes {
		box.addIPv6("eth0", workloadAt(0, i+1))
		box.knowsIPv6("eth0", serverAt(0))
		b.srv.knowsIPv6("eth0", workloadAt(0, i+1))
	}
}

// hostAt returns the endpoint of the host itself in network 0.
func hostAt() endpoint {
	return endpoint{net.IPv4(10, 88, 254, 1).To4(), net.HardwareAddr{2, 0x88, 0, 2, 0, 0}}
}

// hostSends gives the host an address at the bridge of network 0.
func (b *bed) hostSends() {
	b.t.Helper()
	bridge := b.host.device(b.nets[0].bridge)
	b.host.must("address of the bridge", b.host.LinkSetHardwareAddr(bridge, hostAt().mac))
	b.host.must("address of the bridge", b.host.AddrAdd(bridge, &netlink.Addr{IPNet: &net.IPNet{IP: hostAt().ip, Mask: net.CIDRMask(16, 32)}}))
	b.host.knows(b.nets[0].bridge, serverAt(0))
	b.srv.knows("eth0", hostAt())
}

// portName returns the host's end of workload i's device in network n.
func portName(n, i int) string {
	if n == 0 {
		return fmt.Sprintf("w%d", i)
	}
	return fmt.Sprintf("w%dn%d", i, n)
}

// rootQdisc returns the line of tc that names the uplink's root qdisc.
func (b *bed) rootQdisc(n int) string {
	b.t.Helper()
	for line := range strings.Lines(b.host.run("tc qdisc show dev " + b.nets[n].uplink)) {
		if strings.Contains(line, " root ") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// await checks until check is content, or the time is over.
func await(t testing.TB, within time.Duration, what string, check func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return time.Since(begin)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %v: %v", what, within, err)
		case <-ticker.C:
		}
	}
}
