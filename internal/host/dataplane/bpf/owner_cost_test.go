// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/base/cgroup"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane/hosttest"
)

// BenchmarkOwner says what the qdisc's enqueue costs a packet of 64 bytes: of a workload's own
// sockets, of a container by its port, and of the container through a tunnel, which forgets the
// port's device. In a VM in virtual time a nanosecond is an instruction; the kernel's count of
// the program's time has some of its own in it, the same in each:
//
//	go test -c ./internal/host/dataplane/bpf
//	vm/run --virtual-time --copy bpf.test -- ./bpf.test -test.run - -test.bench Owner -test.benchtime 1x
func BenchmarkOwner(b *testing.B) {
	if err := Supported(); err != nil {
		b.Skipf("needs a kernel with BPF qdiscs (vm/run has one): %v", err)
	}
	h := hosttest.New(b, 1)
	const nowhere, ether = "10.77.0.99", "02:00:00:00:00:63" // where no program listens
	h.Netns.Run("sysctl", "-qw", "net.ipv4.ip_forward=1")
	h.Netns.Run("bridge", "fdb", "add", ether, "dev", "up0", "master", "static")
	h.Netns.Run("ip", "neigh", "add", nowhere, "lladdr", ether, "dev", "br0")
	h.Netns.Run("ip", "link", "add", "vxlan9", "type", "vxlan", "id", "9", "dstport", "4789", "local", hosttest.HostAt, "remote", nowhere)
	h.Netns.Run("ip", "link", "set", "vxlan9", "up")
	h.Netns.Run("ip", "route", "add", "10.88.0.0/24", "dev", "vxlan9")
	h.Netns.Run("ip", "neigh", "add", "10.88.0.9", "lladdr", ether, "dev", "vxlan9")
	h.Boxes[0].Run("ip", "neigh", "add", nowhere, "lladdr", ether, "dev", "eth0")
	h.Boxes[0].Run("ip", "route", "add", "10.88.0.0/24", "via", hosttest.HostAt)
	group := filepath.Join(cgroup.Mounts()[0], fmt.Sprintf("weir-cost-%d", os.Getpid()))
	fatal(b, os.Mkdir(group, 0o755))
	defer os.Remove(group)
	backend, err := New("up0", h.Opts, slog.New(slog.DiscardHandler))
	fatal(b, err)
	defer backend.Close()
	want := h.State(plan.Link{Capacity: 1e9}, plan.Class{Weight: 1}, plan.Class{Weight: 1})
	want.Ports = append(want.Ports, plan.Port{Cgroup: group, Class: 2})
	fatal(b, backend.Set(b.Context(), want))
	stop, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	fatal(b, err)
	defer stop.Close()
	enqueue := newest(b, "weir_enqueue")
	defer enqueue.Close()
	for _, bench := range []struct{ name, box, group, to string }{
		{"own_socket", h.Netns.Path(), group, nowhere},
		{"port", h.Boxes[0].Path(), "", nowhere},
		{"tunnel", h.Boxes[0].Path(), "", "10.88.0.9"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			runtime.LockOSThread() // for the change of its namespace
			defer runtime.UnlockOSThread()
			send := sender(b, bench.box, bench.group, bench.to)
			var each []float64
			for range 22 { // the first two warm up
				before, err := enqueue.Stats()
				fatal(b, err)
				for range 1000 {
					send()
				}
				after, err := enqueue.Stats()
				fatal(b, err)
				if after.RunCount < before.RunCount+1000 {
					b.Fatalf("the qdisc has got %d packets of 1000", after.RunCount-before.RunCount)
				}
				each = append(each, float64(after.Runtime-before.Runtime)/float64(after.RunCount-before.RunCount))
			}
			each = each[2:]
			slices.Sort(each)
			b.ReportMetric(each[len(each)/2], "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func fatal(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// newest opens the program of this name that was loaded last.
func newest(b *testing.B, name string) *ebpf.Program {
	b.Helper()
	var found *ebpf.Program
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if err != nil {
			break
		}
		id = next
		prog, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue
		}
		if info, err := prog.Info(); err == nil && info.Name == name {
			if found != nil {
				found.Close()
			}
			found = prog
			continue
		}
		prog.Close()
	}
	if found == nil {
		b.Fatalf("no program %s", name)
	}
	return found
}

// sender returns a function that sends one packet of 64 bytes by a socket that was made in a
// network namespace and a cgroup ("" = the test's).
func sender(b *testing.B, netns, group, to string) func() {
	b.Helper()
	if group != "" {
		text, err := os.ReadFile("/proc/self/cgroup")
		fatal(b, err)
		move := func(to string) {
			fatal(b, os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0))
		}
		move(group)
		defer move(filepath.Join(cgroup.Read().Root, cgroup.Of(string(text))))
	}
	here, err := os.Open("/proc/thread-self/ns/net")
	fatal(b, err)
	defer here.Close()
	there, err := os.Open(netns)
	fatal(b, err)
	defer there.Close()
	fatal(b, unix.Setns(int(there.Fd()), unix.CLONE_NEWNET))
	defer func() { fatal(b, unix.Setns(int(here.Fd()), unix.CLONE_NEWNET)) }()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	fatal(b, err)
	b.Cleanup(func() { unix.Close(fd) })
	addr := &unix.SockaddrInet4{Port: 9, Addr: [4]byte(net.ParseIP(to).To4())}
	payload := make([]byte, 64-14-20-8)
	return func() {
		for unix.Sendto(fd, payload, 0, addr) != nil { // its buffer is full
			time.Sleep(time.Millisecond)
		}
	}
}
