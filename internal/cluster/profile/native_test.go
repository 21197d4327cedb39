// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/base/cgroup"
)

// real makes cgroups of this machine's for a process of the test: one in every
// hierarchy that there is. It skips, and says why, where it may not.
type real struct {
	t       testing.TB
	id      string
	folders []string
	process *exec.Cmd
}

func newReal(t testing.TB, number int, command ...string) *real {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making cgroups takes root")
	}
	r := &real{t: t, id: fmt.Sprintf("%056x%08x", os.Getpid(), number)}
	mounts := map[string]bool{}
	for _, controller := range []string{"cpu", "cpuacct", "memory", "blkio", "pids", "perf_event"} {
		if mount := cgroup.Controllers()[controller]; mount != "" {
			mounts[mount] = true
		}
	}
	if root := cgroup.Read().Root; root != "" {
		mounts[root] = true
	}
	t.Cleanup(r.close)
	for mount := range mounts {
		folder := filepath.Join(mount, "weir-profile-test-"+r.id)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Skipf("cgroups of this machine cannot be made: %v", err)
		}
		r.folders = append(r.folders, folder)
	}
	if len(r.folders) == 0 {
		t.Skip("no cgroups are mounted here")
	}
	// The shell goes into its cgroups by itself before it becomes the command, so
	// that nothing it does is counted elsewhere.
	script := ""
	for _, folder := range r.folders {
		script += "echo $$ >" + folder + "/cgroup.procs && "
	}
	r.process = exec.Command("sh", "-c", script+`exec "$@"`, "sh")
	r.process.Args = append(r.process.Args, command...)
	r.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET}
	if err := r.process.Start(); err != nil {
		t.Skipf("a process in a network namespace of its own: %v", err)
	}
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", r.process.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(text)) == filepath.Base(command[0]) {
			return r
		}
		time.Sleep(time.Millisecond)
	}
}

func (r *real) close() {
	if r.process != nil && r.process.Process != nil {
		_ = r.process.Process.Kill()
		_ = r.process.Wait()
	}
	for _, folder := range r.folders {
		for range 100 { // a cgroup empties a moment after its process
			if os.Remove(folder) == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func (r *real) container() Container {
	return Container{ID: r.id, Name: "c" + r.id[60:], Engine: "docker", PID: r.process.Process.Pid}
}

// TestRealCgroups has a process that works all the time and one that writes, in
// cgroups of this machine.
func TestRealCgroups(t *testing.T) {
	spins := newReal(t, 1, "yes")
	file := filepath.Join(t.TempDir(), "data")
	writes := newReal(t, 2, "dd", "if=/dev/zero", "of="+file, "bs=64k", "count=400", "oflag=dsync", "conv=fsync")
	list := []Container{spins.container(), writes.container()}
	s := New(Options{Node: "a"})
	defer s.Close()
	s.Sample(time.Now(), list)
	time.Sleep(time.Second)
	p := s.Sample(time.Now(), list)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	if len(p.Containers) == 0 {
		t.Fatal("the processes are gone")
	}
	u := p.Containers[0].Usage
	// It shares the machine with others, so it may get little; never more than a CPU.
	if u.CPUCores <= 0 || u.CPUCores > 1.1 || u.Processes != 1 && u.Processes != 0 {
		t.Errorf("yes: %+v", u)
	}
	if u.NetworkTransmitBps != 0 {
		t.Errorf("yes has sent %v bit/s in an empty network", u.NetworkTransmitBps)
	}
	if p.Capacity.CPUCores < 1 || p.Capacity.MemoryBytes < 64<<20 || p.Total.CPUCores < u.CPUCores/2 {
		t.Errorf("node: %+v %+v", p.Capacity, p.Total)
	}
	if len(p.Containers) == 2 {
		t.Logf("dd: %+v", p.Containers[1].Usage)
	}
	t.Logf("yes: %+v %v", u, p.Missing)
}

// TestPerfEvents counts with an event that every machine has, since not every one
// counts cache misses: the way to it is the same.
func TestPerfEvents(t *testing.T) {
	r := newReal(t, 1, "yes")
	s := New(Options{Node: "a"})
	defer s.Close()
	var err error
	if s.perf, err = newCounter(event{"task-clock", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK}, s.Roots); err != nil {
		t.Skipf("this process may not use perf events: %v", err)
	}
	list := []Container{r.container()}
	s.Sample(time.Now(), list)
	if why := s.missing["llc_misses"]; why != "" {
		t.Skip(why)
	}
	time.Sleep(500 * time.Millisecond)
	u := s.Sample(time.Now(), list).Containers[0].Usage
	if u.LLCMissesPerSec == nil || *u.LLCMissesPerSec <= 0 {
		t.Fatalf("nothing was counted: %+v", u)
	}
	// The task clock is ns of CPU time, which the cgroup counts as well.
	if cores := *u.LLCMissesPerSec / 1e9; cores < u.CPUCores*0.5 || cores > u.CPUCores*1.5 {
		t.Errorf("%v CPUs by perf, %v by the cgroup", cores, u.CPUCores)
	}
}

// TestNoCacheMisses: a machine that does not count says so, and all else is there.
func TestNoCacheMisses(t *testing.T) {
	s := New(Options{Node: "a", CacheMisses: true})
	defer s.Close()
	if s.perf != nil {
		t.Skip("this machine counts cache misses")
	}
	p := s.Sample(time.Now(), nil)
	if len(p.Missing) != 1 || !strings.HasPrefix(p.Missing[0], "llc_misses: ") || strings.Contains(p.Missing[0], "\n") {
		t.Errorf("%q", p.Missing)
	}
	t.Log(p.Missing)
}

// hundred is how many containers the bar speaks of: below 1 % of a CPU, sampled
// every 5 s.
const hundred = 100

// BenchmarkFake samples a hundred containers whose files are ordinary ones.
func BenchmarkFake(b *testing.B) {
	f := newTree(b)
	var list []Container
	for i := range hundred {
		id := fmt.Sprintf("%064x", i)
		f.unified("/docker/"+id, 1)
		f.process(1000+i, "0::/docker/"+id+"\n")
		list = append(list, Container{ID: id, Name: "c" + strconv.Itoa(i), PID: 1000 + i})
	}
	benchmark(b, New(Options{Node: "a", Roots: f.roots}), list)
}

// BenchmarkReal samples a hundred processes in cgroups of this machine.
func BenchmarkReal(b *testing.B) {
	var list []Container
	for i := range hundred {
		list = append(list, newReal(b, i, "sleep", "1000").container())
	}
	benchmark(b, New(Options{Node: "a"}), list)
}

func benchmark(b *testing.B, s *Sampler, list []Container) {
	b.Helper()
	defer s.Close()
	now := time.Now()
	s.Sample(now, list)
	before := cpuTime(b)
	for b.Loop() {
		now = now.Add(Interval)
		if p := s.Sample(now, list); len(p.Containers) != len(list) {
			b.Fatalf("%d containers", len(p.Containers))
		}
	}
	each := (cpuTime(b) - before).Seconds() / float64(b.N)
	b.ReportMetric(each*1000, "cpu-ms/op")
	b.ReportMetric(each/Interval.Seconds()*100, "%cpu")
}

// cpuTime is this process's, which other programs on the machine do not add to.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
