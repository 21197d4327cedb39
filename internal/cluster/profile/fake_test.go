// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree is the kernel's files as a test wants them.
type tree struct {
	t     testing.TB
	root  string
	roots Roots
}

func newTree(t testing.TB) *tree {
	root := t.TempDir()
	f := &tree{t: t, root: root, roots: Roots{Proc: root + "/proc", Legacy: map[string]string{}}}
	f.link("proc/self/ns/net", "net:[1]")
	f.write("proc/stat", "cpu  100 0 50 9000 10 0 5 7 0 0\ncpu0 1 1\ncpu1 1 1\nintr 5\n")
	f.write("proc/meminfo", "MemTotal:        8000000 kB\nMemFree: 1 kB\nMemAvailable:    6000000 kB\nAnonPages:  500000 kB\n")
	f.write("proc/diskstats", " 254 0 vda 5 0 1000 1 2 0 3000 1 0 0 0\n 254 1 vda1 5 0 1000 1 2 0 3000 1 0 0 0\n 7 0 loop0 5 0 900 1 2 0 900 1 0 0 0\n")
	f.write("proc/net/dev", header+"    lo: 9 0 0 0 0 0 0 0 9 0\n  eth0: 1000 1 0 0 0 0 0 0 2000 2 0 0 0 0 0 0\n  eth1: 5 1 0 0 0 0 0 0 5 2 0 0 0 0 0 0\n")
	for _, name := range []string{"cpu", "memory", "io"} {
		f.write("proc/pressure/"+name, pressureOf(1000))
	}
	return f
}

const header = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes\n"

func pressureOf(micros int) string {
	return fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n", micros)
}

func (f *tree) write(path, text string) {
	f.t.Helper()
	full := filepath.Join(f.root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *tree) link(path, target string) {
	f.t.Helper()
	full := filepath.Join(f.root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		f.t.Fatal(err)
	}
	_ = os.Remove(full)
	if err := os.Symlink(target, full); err != nil {
		f.t.Fatal(err)
	}
}

func (f *tree) remove(path string) {
	f.t.Helper()
	if err := os.RemoveAll(filepath.Join(f.root, path)); err != nil {
		f.t.Fatal(err)
	}
}

// process adds a container's process, in a network namespace of its own.
func (f *tree) process(pid int, cgroups string) {
	f.write(fmt.Sprintf("proc/%d/cgroup", pid), cgroups)
	f.link(fmt.Sprintf("proc/%d/ns/net", pid), fmt.Sprintf("net:[%d]", pid))
	f.traffic(pid, 1000, 5000)
}

func (f *tree) traffic(pid, sent, received int) {
	f.write(fmt.Sprintf("proc/%d/net/dev", pid), fmt.Sprintf(header+"    lo: 7 0 0 0 0 0 0 0 7 0\n  eth0:%8d 10 0 0 0 0 0 0 %d 10 0 0 0 0 0 0\n", received, sent))
}

// unified gives a container's cgroup of version 2 counters that have grown n times.
func (f *tree) unified(folder string, n int) {
	f.roots.Cgroup = f.root + "/cgroup"
	at := "cgroup/" + strings.TrimPrefix(folder, "/")
	f.write(at+"/cpu.stat", fmt.Sprintf("usage_usec %d\nuser_usec 1\nsystem_usec 1\nnr_periods 1\nnr_throttled 1\nthrottled_usec %d\n", 7_000_000*n, 500_000*n))
	f.write(at+"/memory.current", "150000000\n")
	f.write(at+"/memory.stat", "anon 40000000\nfile 110000000\ninactive_file 100000000\nanon_thp 5\n")
	f.write(at+"/io.stat", fmt.Sprintf("254:0 rbytes=%d wbytes=%d rios=1 wios=1 dbytes=0 dios=0\n253:0 rbytes=%d wbytes=0 rios=1\n", 1000*n, 5000*n, 1000*n))
	f.write(at+"/pids.current", "3\n")
	f.write(at+"/memory.max", "200000000\n")
	f.write(at+"/cpu.max", "150000 100000\n")
	for _, name := range []string{"cpu", "memory", "io"} {
		f.write(at+"/"+name+".pressure", pressureOf(1_000_000*n))
	}
}

// legacy does the same in version 1.
func (f *tree) legacy(folder string, n int) {
	for _, controller := range []string{"cpu", "cpuacct", "memory", "blkio", "pids"} {
		f.roots.Legacy[controller] = f.root + "/v1/" + controller
	}
	f.write("v1/cpuacct"+folder+"/cpuacct.usage", fmt.Sprintf("%d\n", 7_000_000_000*n))
	f.write("v1/cpu"+folder+"/cpu.stat", fmt.Sprintf("nr_periods 1\nnr_throttled 1\nthrottled_time %d\n", 500_000_000*n))
	f.write("v1/cpu"+folder+"/cpu.cfs_quota_us", "150000\n")
	f.write("v1/cpu"+folder+"/cpu.cfs_period_us", "100000\n")
	f.write("v1/memory"+folder+"/memory.usage_in_bytes", "150000000\n")
	f.write("v1/memory"+folder+"/memory.limit_in_bytes", "9223372036854771712\n")
	f.write("v1/memory"+folder+"/memory.stat", "cache 1\nrss 2\ninactive_file 3\ntotal_rss 40000000\ntotal_inactive_file 100000000\n")
	f.write("v1/blkio"+folder+"/blkio.throttle.io_service_bytes", fmt.Sprintf("254:0 Read %d\n254:0 Write %d\n254:0 Total 1\nTotal 1\n", 2000*n, 5000*n))
	f.write("v1/pids"+folder+"/pids.current", "3\n")
}
