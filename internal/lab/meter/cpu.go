// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CPU tells how busy the host is.
type CPU interface {
	// Sample is the idle and the total CPU time so far, in units of its own.
	Sample() (CPUSample, error)
	// Exact is false if the figure is the kernel's rough account.
	Exact() bool
	Close()
}

// CPUSample is a CPU's account at one instant.
type CPUSample struct {
	Idle, Total float64
}

// Busy is the share of the time between two samples in which the CPUs worked.
func Busy(from, to CPUSample) float64 {
	total := to.Total - from.Total
	if total <= 0 {
		return 0
	}
	return min(1, max(0, 1-(to.Idle-from.Idle)/total))
}

// Stat reads /proc/stat: the kernel's own account, sampled by the timer tick
// and therefore rough.
type Stat struct{}

// Exact is false.
func (Stat) Exact() bool { return false }

// Close has nothing to do.
func (Stat) Close() {}

// Sample reads the line of all CPUs.
func (Stat) Sample() (CPUSample, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return CPUSample{}, err
	}
	return parseStat(string(data))
}

func parseStat(text string) (CPUSample, error) {
	head, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(head)
	if len(fields) < 6 || fields[0] != "cpu" {
		return CPUSample{}, fmt.Errorf("/proc/stat begins with %q, not with the CPUs' account", head)
	}
	var s CPUSample
	for i, f := range fields[1:min(len(fields), 9)] { // guest time is within user time
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return CPUSample{}, fmt.Errorf("/proc/stat: %w", err)
		}
		s.Total += v
		if i == 3 || i == 4 { // idle, iowait
			s.Idle += v
		}
	}
	return s, nil
}

// Soaker takes the CPU time that no other program wants, at idle priority, and
// counts it. It is calibrated while nothing else runs.
type Soaker struct {
	cmd     *exec.Cmd
	memory  []byte
	counter []*atomic.Uint64 // one per CPU, a page each
	perSec  float64          // loops per second of all CPUs together when idle
}

const page = 4096

// StartSoaker starts the loop as a process of its own (command runs Soak with
// the file it gets as descriptor 3) and calibrates it for a second.
func StartSoaker(command *exec.Cmd) (*Soaker, error) {
	cpus := runtime.NumCPU()
	fd, err := unix.MemfdCreate("weir-soaker", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for the soaker: %w", err)
	}
	file := os.NewFile(uintptr(fd), "weir-soaker")
	defer file.Close()
	if err := file.Truncate(int64(cpus * page)); err != nil {
		return nil, err
	}
	s := &Soaker{cmd: command}
	if s.memory, s.counter, err = mapCounters(file, cpus); err != nil {
		return nil, err
	}
	command.ExtraFiles = []*os.File{file}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the soaker: %w", err)
	}
	for tries := 0; s.loops() == 0; tries++ {
		if tries == 500 {
			s.Close()
			return nil, fmt.Errorf("the soaker does not run within 5 s")
		}
		time.Sleep(10 * time.Millisecond)
	}
	return s, s.calibrate()
}

// calibrate lets the loop warm up and then takes the best of some windows:
// whatever else the host still does after its set-up can only slow the loop.
func (s *Soaker) calibrate() error {
	const warmUp, windows, window = 200 * time.Millisecond, 10, 100 * time.Millisecond
	time.Sleep(warmUp)
	for range windows {
		from, loops := Now(), s.loops()
		time.Sleep(window)
		to, after := Now(), s.loops()
		s.perSec = max(s.perSec, float64(after-loops)/(to-from).Seconds())
	}
	if s.perSec == 0 {
		return fmt.Errorf("the soaker stands still")
	}
	return nil
}

func mapCounters(file *os.File, cpus int) ([]byte, []*atomic.Uint64, error) {
	memory, err := unix.Mmap(int(file.Fd()), 0, cpus*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map the soaker's counters: %w", err)
	}
	var counters []*atomic.Uint64
	for cpu := range cpus {
		counters = append(counters, (*atomic.Uint64)(unsafe.Pointer(&memory[cpu*page])))
	}
	return memory, counters, nil
}

func (s *Soaker) loops() (sum uint64) {
	for _, c := range s.counter {
		sum += c.Load()
	}
	return sum
}

// Exact is true.
func (s *Soaker) Exact() bool { return true }

// Sample of the loops done and of those that an idle host would have allowed.
func (s *Soaker) Sample() (CPUSample, error) {
	return CPUSample{Idle: float64(s.loops()), Total: s.perSec * Now().Seconds()}, nil
}

// Close ends the process.
func (s *Soaker) Close() {
	if s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
	_ = unix.Munmap(s.memory)
}

// Soak is the soaker's process: one loop per CPU on the memory behind
// descriptor 3, for ever.
func Soak() error {
	debug.SetGCPercent(-1)
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return fmt.Errorf("soaker: which CPUs are ours: %w", err)
	}
	cpus := runtime.NumCPU() // as many as allowed has
	runtime.GOMAXPROCS(cpus + 1)
	_, counters, err := mapCounters(os.NewFile(3, "counters"), cpus)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for cpu, next := 0, 0; next < len(counters); cpu++ {
		if allowed.IsSet(cpu) {
			c := counters[next]
			next++
			go func() { failed <- soakOn(cpu, c) }()
		}
	}
	return <-failed
}

func soakOn(cpu int, c *atomic.Uint64) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("soaker: bind to CPU %d: %w", cpu, err)
	}
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
	if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
		return fmt.Errorf("soaker: take idle priority: %w", err)
	}
	for n := uint64(1); ; n++ {
		spin(1000) //nolint:staticcheck // its work is the time that it takes
		c.Store(n)
	}
}

// spin is work that the compiler cannot leave out.
//
//go:noinline
func spin(n int) (x uint32) {
	for i := range n {
		x = x*1664525 + uint32(i)
	}
	return x
}
