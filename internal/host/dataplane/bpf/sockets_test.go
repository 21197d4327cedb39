// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/base/cgroup"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/marktest"
)

// enterCgroup moves this process into a cgroup until the test ends.
func enterCgroup(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	must(t, err)
	move := func(to string) {
		must(t, os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0))
	}
	move(path)
	t.Cleanup(func() { move(filepath.Join(cgroup.Read().Root, cgroup.Of(string(text)))) })
}

// The qdisc alone, without a program at the link, counts the packets of sockets for the
// class of the cgroup that the socket was made in, and those of containers for that of
// their port, whatever mark they set. An agent that starts again finds it so.
func TestPacketsOfSockets(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skipf("needs a kernel with BPF qdiscs (vm/run has one): %v", err)
	}
	host := netnstest.Enter(t)
	opts := netnstest.Options(t)
	bed := marktest.New(t, host)
	enterCgroup(t, bed.Agent)
	want := bed.State()
	want.Link = plan.Link{Device: marktest.Uplink, Capacity: 1e9, Reserve: 1, Scheduler: plan.SchedulerFair}
	for range 2 {
		b := newBackend(t, opts)
		must(t, b.Set(context.Background(), want))
		if programs := egressPrograms(t, b.dev); programs != 0 {
			t.Errorf("%d programs are at the link: each packet pays for them", programs)
		}
		for _, try := range bed.Tries(t) {
			before := enqueued(t, b)
			bed.Send(t, try)
			after := enqueued(t, b)
			class := try.Class()
			if after[class] == before[class] {
				t.Errorf("%s: not counted for class %d", try.Name, class)
			}
			for id := range after {
				if id != 0 && id != class && after[id] != before[id] {
					t.Errorf("%s: counted for class %d, want %d", try.Name, id, class)
				}
			}
		}
		must(t, b.Close())
	}
}

// Where another program has overwritten the mark of a container's packets, the class is in the
// seal: routed, and bridged into a tunnel.
func TestPacketsWithOverwrittenMarks(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skipf("needs a kernel with BPF qdiscs (vm/run has one): %v", err)
	}
	host := netnstest.Enter(t)
	b := newBackend(t, netnstest.Options(t))
	bed := marktest.New(t, host)
	want := bed.State()
	want.Link = plan.Link{Device: marktest.Uplink, Capacity: 1e9, Reserve: 1, Scheduler: plan.SchedulerFair}
	must(t, b.Set(context.Background(), want))
	marktest.Overwrite(t, want.Ports[0].Ifindex, 7<<16|0xf00)
	tries := 0
	for _, try := range bed.Tries(t) {
		if !strings.HasPrefix(try.Name, "container") {
			continue
		}
		tries++
		before := enqueued(t, b)
		bed.Send(t, try)
		after := enqueued(t, b)
		if after[5] == before[5] || after[7] != before[7] {
			t.Errorf("%s: class 5 has got %d packets, class 7 %d, want all in class 5", try.Name, after[5]-before[5], after[7]-before[7])
		}
	}
	if tries < 3 {
		t.Errorf("%d ways of sending", tries)
	}
}

// What the qdisc knows of sockets follows the plan, and no more than that is written.
func TestPacketsOfSocketsFollowThePlan(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skipf("needs a kernel with BPF qdiscs (vm/run has one): %v", err)
	}
	host := netnstest.Enter(t)
	b := newBackend(t, netnstest.Options(t))
	bed := marktest.New(t, host)
	want := bed.State()
	want.Link = plan.Link{Device: marktest.Uplink, Capacity: 1e9, Reserve: 1, Scheduler: plan.SchedulerFair}
	for _, ports := range [][]plan.Port{want.Ports, want.Ports[:1], want.Ports[1:], nil} {
		want.Ports = ports
		must(t, b.Set(context.Background(), want))
		sockets, err := b.marker.Sockets(want)
		must(t, err)
		have, err := b.obj.owned()
		must(t, err)
		if !maps.Equal(have, sockets.Owners) {
			t.Errorf("%d ports: the qdisc knows %v, want %v", len(ports), have, sockets.Owners)
		}
	}
	// With a DSCP of the host's, a program has to be at the link.
	dscp := uint8(46)
	for _, c := range []struct {
		dscp     *uint8
		programs int
	}{{&dscp, 1}, {nil, 0}} {
		want.Classes[0].DSCP = c.dscp
		must(t, b.Set(context.Background(), want))
		if got := egressPrograms(t, b.dev); got != c.programs {
			t.Errorf("DSCP %v: %d programs at the link, want %d", c.dscp, got, c.programs)
		}
	}
}

// enqueued is how many packets each class has got.
func enqueued(t *testing.T, b *Backend) map[plan.ClassID]uint64 {
	t.Helper()
	snap, err := b.Counters()
	must(t, err)
	got := map[plan.ClassID]uint64{}
	for id, c := range snap.Classes {
		got[id] = c.EnqueuedPackets
	}
	return got
}

// egressPrograms counts the programs that packets pass before the link's qdisc, but for the one
// that looks for long packets on a slow link.
func egressPrograms(t *testing.T, dev device.Device) int {
	t.Helper()
	result, err := link.QueryPrograms(link.QueryOptions{Target: dev.Index, Attach: ebpf.AttachTCXEgress})
	must(t, err)
	n := 0
	for _, p := range result.Programs {
		program, err := ebpf.NewProgramFromID(p.ID)
		must(t, err)
		info, err := program.Info()
		must(t, errors.Join(err, program.Close()))
		if info.Name != "weir_rules_long" {
			n++
		}
	}
	return n
}
