// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
)

// onLink gives the test a network namespace of its own with a link up0 whose
// other end swallows everything, and options that keep the host as it is.
func onLink(t *testing.T) dataplane.Options {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if err := Supported(); err != nil {
		t.Skipf("needs a kernel with BPF qdiscs (vm/run has one): %v", err)
	}
	runtime.LockOSThread()
	home, err := netns.Get()
	must(t, err)
	mine, err := netns.New()
	must(t, err)
	t.Cleanup(func() {
		must(t, netns.Set(home))
		must(t, mine.Close())
		must(t, home.Close())
		runtime.UnlockOSThread()
	})
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "up0"}, PeerName: "up1"}))
	for _, name := range []string{"up0", "up1", "lo"} {
		l, err := netlink.LinkByName(name)
		must(t, err)
		must(t, netlink.LinkSetUp(l))
	}
	up0, err := netlink.LinkByName("up0")
	must(t, err)
	addr, err := netlink.ParseAddr("10.9.0.1/24")
	must(t, err)
	must(t, netlink.AddrAdd(up0, addr))
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 2}
	must(t, netlink.NeighSet(&netlink.Neigh{
		LinkIndex: up0.Attrs().Index, IP: net.IPv4(10, 9, 0, 2), HardwareAddr: mac, State: netlink.NUD_PERMANENT,
	}))
	return dataplane.Options{BPFFS: "/sys/fs/bpf/weir-test-" + strings.ReplaceAll(t.Name(), "/", "-"), StateDir: t.TempDir()}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newBackend(t *testing.T, opts dataplane.Options) *Backend {
	t.Helper()
	b, err := New("up0", opts, slog.New(slog.NewTextHandler(t.Output(), nil)))
	must(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

func threeClasses(scheduler string) plan.State {
	return plan.State{
		Link: plan.Link{Device: "up0", Capacity: 100e6, Reserve: 1, Scheduler: scheduler},
		Classes: []plan.Class{
			{ID: 0, Name: "host", Weight: 1},
			{ID: 1, Name: "c1", Weight: 1, Min: 10e6},
			{ID: 2, Name: "c2", Weight: 2, Max: 30 * policy.Rate(1e6)},
		},
	}
}

// send sends n packets of 100 bytes as class 0.
func send(t *testing.T, n int) {
	t.Helper()
	conn, err := net.Dial("udp4", "10.9.0.2:9")
	must(t, err)
	defer conn.Close()
	for range n {
		_, err := conn.Write(make([]byte, 100))
		must(t, err)
	}
}

func tc(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("tc", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("tc %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestPacketsAreCounted(t *testing.T) {
	for i, scheduler := range slices.Concat(plan.Schedulers, plan.Schedulers) {
		small := i >= len(plan.Schedulers)
		t.Run(fmt.Sprintf("%s,small=%t", scheduler, small), func(t *testing.T) {
			opts := onLink(t)
			opts.Small = small
			b := newBackend(t, opts)
			must(t, b.Set(context.Background(), threeClasses(scheduler)))
			if got := tc(t, "qdisc", "show", "dev", "up0"); !strings.Contains(got, "qdisc weir") {
				t.Fatalf("root qdisc: %s", got)
			}
			send(t, 50)
			var c dataplane.Counters
			for deadline := time.Now().Add(5 * time.Second); c.SentPackets < 50 && time.Now().Before(deadline); {
				snap, err := b.Counters()
				must(t, err)
				c = snap.Classes[0]
			}
			if c.SentPackets < 50 || c.EnqueuedPackets != c.SentPackets+c.BacklogPackets {
				t.Fatalf("counters: %+v", c)
			}
			must(t, b.Cleanup(context.Background()))
			if got := tc(t, "qdisc", "show", "dev", "up0"); strings.Contains(got, "weir") {
				t.Fatalf("root qdisc after cleanup: %s", got)
			}
		})
	}
}
