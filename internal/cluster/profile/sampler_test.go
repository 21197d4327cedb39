// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/core/bound"
	"weir/internal/core/wire"
	"weir/internal/test/boundtest"
)

const (
	one = "1111111111111111111111111111111111111111111111111111111111111111"
	two = "2222222222222222222222222222222222222222222222222222222222222222"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestVersions has the same container in both versions of cgroups: 7 s of CPU time
// in 5 s, and so on.
func TestVersions(t *testing.T) {
	want := wire.Usage{CPUCores: 1.4, MemoryBytes: 50e6, MemoryAnonymousBytes: 40e6, BlockReadBytesPerSec: 400, BlockWriteBytesPerSec: 1000,
		NetworkTransmitBps: 1600, NetworkReceiveBps: 3200, Processes: 3, ThrottledShare: 0.1}
	for _, tt := range []struct {
		name, cgroups string
		fill          func(f *tree, n int)
		memory        uint64 // limit
		pressure      *wire.Pressure
	}{
		{"version 2", "0::/system.slice/docker-" + one + ".scope/init\n",
			func(f *tree, n int) { f.unified("/system.slice/docker-"+one+".scope", n) }, 200e6, &wire.Pressure{CPU: 0.2, Memory: 0.2, IO: 0.2}},
		{"version 1", "9:name=systemd:/docker/" + one + "\n4:memory:/docker/" + one + "\n3:cpu,cpuacct:/docker/" + one + "\n2:blkio:/docker/" + one + "\n1:pids:/docker/" + one + "\n0::/\n",
			func(f *tree, n int) { f.legacy("/docker/"+one, n) }, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newTree(t)
			tt.fill(f, 1)
			f.process(7, tt.cgroups)
			s := New(Options{Node: "a", Roots: f.roots})
			list := []Container{{ID: one, Name: "web", Engine: "docker", Image: "nginx", PID: 7, Labels: map[string]string{"a": "b"},
				Policy: wire.Policy{Weight: 2, MinBps: 5}, ChangedBytes: 9}}
			first := s.Sample(began, list)
			if err := first.Check(); err != nil {
				t.Fatal(err)
			}
			if u := first.Containers[0].Usage; u.CPUCores != 0 || u.NetworkTransmitBps != 0 || u.MemoryBytes != 50e6 || u.Pressure != nil {
				t.Errorf("first: %+v", u)
			}
			tt.fill(f, 2)
			f.traffic(7, 2000, 7000)
			p := s.Sample(began.Add(5*time.Second), list)
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
			c := p.Containers[0]
			u := c.Usage
			if fmt.Sprint(u.Pressure) != fmt.Sprint(tt.pressure) {
				t.Errorf("pressure %v, want %v", u.Pressure, tt.pressure)
			}
			if u.Pressure = nil; u != want {
				t.Errorf("%+v\nwant %+v", u, want)
			}
			if p.Sequence != 2 || p.IntervalSeconds != 5 || c.Limits != (wire.CgroupLimits{CPUCores: 1.5, MemoryBytes: tt.memory}) ||
				c.Name != "web" || c.Image != "nginx" || c.Labels["a"] != "b" || c.Policy.MinBps != 5 || c.ChangedBytes != 9 || c.ID != one {
				t.Errorf("%+v", p)
			}
		})
	}
}

// TestNode measures the node, by the files that every test has.
func TestNode(t *testing.T) {
	f := newTree(t)
	s := New(Options{Node: "a", Roots: f.roots, Links: []Link{{Device: "eth0", TransmitBps: 1e9, ReceiveBps: 2e9, GuaranteedBps: 9e8, ElsewhereBps: 1e8}}})
	s.Sample(began, nil)
	f.write("proc/stat", "cpu  400 0 150 9000 10 0 105 7 0 0\ncpu0 1\ncpu1 1\nintr 5\n")
	f.write("proc/diskstats", " 254 0 vda 5 0 2000 1 2 0 3000 1 0 0 0\n 254 1 vda1 5 0 9000 1 2 0 9000 1 0 0 0\n")
	f.write("proc/net/dev", header+"  eth0: 2000 1 0 0 0 0 0 0 4000 2 0 0 0 0 0 0\n  eth1: 9999 1 0 0 0 0 0 0 9999 2 0 0 0 0 0 0\n")
	f.write("proc/pressure/io", pressureOf(501_000))
	p := s.Sample(began.Add(5*time.Second), nil)
	pressure := p.Total.Pressure
	p.Total.Pressure = nil
	want := wire.Usage{CPUCores: 1, MemoryBytes: 2_000_000 * 1024, MemoryAnonymousBytes: 500_000 * 1024, BlockReadBytesPerSec: 102400,
		NetworkTransmitBps: 3200, NetworkReceiveBps: 1600}
	if p.Total != want || *pressure != (wire.Pressure{IO: 0.1}) {
		t.Errorf("%+v %+v\nwant %+v", p.Total, *pressure, want)
	}
	if k := (wire.Capacity{CPUCores: 2, MemoryBytes: 8_000_000 * 1024, NetworkTransmitBps: 1e9, NetworkReceiveBps: 2e9,
		GuaranteedBps: 9e8, GuaranteedElsewhereBps: 1e8}); p.Capacity != k {
		t.Errorf("%+v\nwant %+v", p.Capacity, k)
	}
	given := New(Options{Node: "a", Roots: f.roots, Capacity: wire.Capacity{CPUCores: 0.5, MemoryBytes: 1e9}})
	if k := given.Sample(began, nil).Capacity; k.CPUCores != 0.5 || k.MemoryBytes != 1e9 {
		t.Errorf("%+v", k)
	}
}

// TestProcessIO: the kernel does not count block I/O in the cgroup, so processes
// are asked; they come and go.
func TestProcessIO(t *testing.T) {
	f := newTree(t)
	f.legacy("/docker/"+one, 1)
	f.write("v1/blkio/docker/"+one+"/blkio.throttle.io_service_bytes", "Total 0\n")
	f.process(7, "4:memory:/docker/"+one+"\n2:blkio:/docker/"+one+"\n")
	io := func(pid, read, written int) {
		f.write(fmt.Sprintf("proc/%d/io", pid), fmt.Sprintf("rchar: 1\nwchar: 1\nsyscr: 1\nread_bytes: %d\nwrite_bytes: %d\ncancelled_write_bytes: 5\n", read, written))
	}
	list := []Container{{ID: one, Name: "web", PID: 7}}
	s := New(Options{Node: "a", Roots: f.roots})
	step := 0
	expect := func(pids string, read, written float64) {
		t.Helper()
		f.write("v1/memory/docker/"+one+"/cgroup.procs", pids)
		u := s.Sample(began.Add(time.Duration(step)*time.Second), list).Containers[0].Usage
		if u.BlockReadBytesPerSec != read || u.BlockWriteBytesPerSec != written {
			t.Errorf("second %d: %v read, %v written; want %v, %v", step, u.BlockReadBytesPerSec, u.BlockWriteBytesPerSec, read, written)
		}
		step++
	}
	io(7, 1000, 2000)
	expect("7\n", 0, 0)
	io(7, 1500, 2000)
	io(8, 300, 50)
	expect("7\n8\n", 800, 50)
	io(8, 400, 50)
	expect("8\n", 100, 0) // 7 has ended
	expect("8\n9\n", 0, 0)
}

func TestComingAndGoing(t *testing.T) {
	f := newTree(t)
	f.unified("/docker/"+one, 1)
	f.unified("/docker/"+two, 1)
	f.process(7, "0::/docker/"+one+"\n")
	f.process(8, "0::/docker/"+two+"\n")
	s := New(Options{Node: "a", Roots: f.roots})
	list := []Container{{ID: one, PID: 7}, {ID: two, PID: 8}, {ID: one, PID: 7}, {ID: "3", PID: 99}}
	ids := func(p wire.Profile) string {
		var names []string
		for _, c := range p.Containers {
			names = append(names, c.ID[:1])
		}
		return strings.Join(names, "")
	}
	if got := ids(s.Sample(began, list)); got != "12" {
		t.Errorf("containers %s: one is there twice, one has no process", got)
	}
	// Started anew: counters begin again, and nothing is known for a while.
	f.unified("/docker/"+one, 0)
	f.process(9, "0::/docker/"+one+"\n")
	list[0].PID = 9
	f.unified("/docker/"+two, 2)
	p := s.Sample(began.Add(time.Second), list[:2])
	if p.Containers[0].Usage.CPUCores != 0 || p.Containers[1].Usage.CPUCores != 7 {
		t.Errorf("%v %v", p.Containers[0].Usage, p.Containers[1].Usage)
	}
	f.unified("/docker/"+one, 1)
	if u := s.Sample(began.Add(2*time.Second), list[:1]).Containers[0].Usage; u.CPUCores != 7 {
		t.Errorf("%+v", u)
	}
	if len(s.known) != 1 {
		t.Errorf("%d are remembered", len(s.known))
	}
	f.remove("cgroup/docker/" + one) // between the list and the files
	if u := s.Sample(began.Add(3*time.Second), list[:1]).Containers[0].Usage; u.CPUCores != 0 || u.MemoryBytes != 0 {
		t.Errorf("%+v", u)
	}
	// The clock was set back.
	if p := s.Sample(began, list[1:2]); p.IntervalSeconds != 0 || p.Check() != nil {
		t.Errorf("%v, %v", p.IntervalSeconds, p.Check())
	}
}

func TestNetworks(t *testing.T) {
	f := newTree(t)
	f.unified("/docker/"+one, 1)
	f.process(7, "0::/docker/"+one+"\n")
	f.link("proc/7/ns/net", "net:[1]") // the host's
	s := New(Options{Node: "a", Roots: f.roots})
	list := []Container{{ID: one, PID: 7}}
	s.Sample(began, list)
	f.traffic(7, 9000, 9000)
	if u := s.Sample(began.Add(time.Second), list).Containers[0].Usage; u.NetworkTransmitBps != 0 {
		t.Errorf("the host's traffic counts as the container's: %v", u.NetworkTransmitBps)
	}
	list[0].Traffic = &NetBytes{Transmitted: 1e6, Received: 2e6} // counted by Weir from now on
	if u := s.Sample(began.Add(2*time.Second), list).Containers[0].Usage; u.NetworkTransmitBps != 0 {
		t.Errorf("all that was ever sent counts: %v", u.NetworkTransmitBps)
	}
	list[0].Traffic = &NetBytes{Transmitted: 1.5e6, Received: 2e6}
	if u := s.Sample(began.Add(3*time.Second), list).Containers[0].Usage; u.NetworkTransmitBps != 4e6 || u.NetworkReceiveBps != 0 {
		t.Errorf("%v %v", u.NetworkTransmitBps, u.NetworkReceiveBps)
	}
}

func TestRun(t *testing.T) {
	f := newTree(t)
	s := New(Options{Node: "a", Roots: f.roots})
	ctx, stop := context.WithCancel(context.Background())
	var sequence []uint64
	s.Run(ctx, time.Millisecond, func() []Container { return nil }, func(p wire.Profile) {
		if sequence = append(sequence, p.Sequence); len(sequence) == 3 {
			stop()
		}
		if text, err := json.Marshal(p); err != nil || !strings.Contains(string(text), `"containers":[]`) {
			t.Errorf("%s, %v", text, err)
		}
	})
	if !slices.Equal(sequence, []uint64{1, 2, 3}) {
		t.Errorf("%v", sequence)
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		what      string
		got, want any
	}{
		{"a number", number([]byte("42\n")), uint64(42)},
		{"no number", number([]byte("max\n")), uint64(0)},
		{"too large a number", number([]byte("99999999999999999999")), uint64(1<<64 - 1)},
		{"the largest number", number([]byte("18446744073709551615")), uint64(1<<64 - 1)},
		{"a field of a longer name", field([]byte("anon_thp 5\nanon 6"), "anon"), uint64(6)},
		{"no quota", quota([]byte("max 100000\n")), 0.0},
		{"a quota", quota([]byte("50000 100000\n")), 0.5},
		{"a cut file", quota([]byte("5")), 0.0},
		{"no limit", limited(9223372036854771712), uint64(0)},
		{"pressure without full", Waited([]byte("some avg10=0.00 total=77")), uint64(77)},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, tt.got, tt.want)
		}
	}
	if read, written, counted := serviced([]byte("8:0 Read 5\n8:0 Write 6\n8:0 Sync 9\n8:16 Read 1\nTotal 12\n")); read != 6 || written != 6 || !counted {
		t.Errorf("%d %d %v", read, written, counted)
	}
}

func FuzzParsers(f *testing.F) {
	for _, text := range []string{"cpu  1 2 3\ncpu0 1", header + "eth0:1 2", "254:0 Read 5", "254:0 rbytes=1", "some total=", "1 1", "cpu", " 1 2 sda 1 2 3 4 5 6 7"} {
		f.Add([]byte(text))
	}
	boundtest.Seeds[[]byte](f, bound.Policy)
	f.Fuzz(func(t *testing.T, text []byte) {
		boundtest.Hold(t, func() {
			before := string(text)
			field(text, "anon")
			ioStat(text)
			serviced(text)
			netDev(text, notLoopback)
			Waited(text)
			if q := quota(text); q < 0 {
				t.Errorf("quota %v", q)
			}
			if _, cpus := busy(text); cpus < 0 {
				t.Errorf("%d CPUs", cpus)
			}
			diskStats(text)
			if string(text) != before {
				t.Error("the text was changed")
			}
		})
	})
}
