// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/internal/base/cgroup"
)

// event names what a perf event counts.
type event struct {
	name   string
	kind   uint32
	config uint64
}

// cacheMisses counts the misses of the last-level cache (perf list calls it
// cache-misses).
var cacheMisses = event{"cache-misses", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CACHE_MISSES}

// counter counts an event for cgroups: in the hierarchy of version 1 that perf_event
// is in, otherwise in that of version 2.
type counter struct {
	event
	legacy string // mount of perf_event, "" = version 2
	cpus   []int
}

// newCounter tries the event on this process, and says why there is none.
func newCounter(e event, roots Roots) (*counter, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("CPUs of this process: %w", err)
	}
	c := &counter{event: e, legacy: roots.Legacy["perf_event"]}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			c.cpus = append(c.cpus, cpu)
		}
	}
	fd, err := c.perfOpen(0, -1, 0)
	if err != nil {
		return nil, err
	}
	return c, unix.Close(fd)
}

func (c *counter) perfOpen(pid, cpu, flags int) (int, error) {
	attr := unix.PerfEventAttr{Type: c.kind, Config: c.config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	fd, err := unix.PerfEventOpen(&attr, pid, cpu, -1, flags|unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
			return -1, fmt.Errorf("this machine does not count %s: perf_event_open: %w", c.name, err)
		}
		return -1, fmt.Errorf("perf_event_open %s: %w", c.name, err)
	}
	return fd, nil
}

// events count for one cgroup, one for each CPU; nil counts nothing.
type events struct{ fds []int }

// open begins to count for a container.
func (c *counter) open(f files, text, id string) (*events, error) {
	folder := f.unified
	if c.legacy != "" {
		folder = ""
		if path := cgroup.OfContainer(cgroup.OfController(text, "perf_event"), id); path != "" {
			folder = filepath.Join(c.legacy, path)
		}
	}
	if folder == "" {
		return nil, fmt.Errorf("container %.12s has no cgroup for perf events: mount perf_event before the engine starts, or use cgroups of version 2", id)
	}
	dir, err := unix.Open(folder, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", folder, err)
	}
	defer unix.Close(dir) // the events hold the cgroup by themselves
	e := &events{}
	for _, cpu := range c.cpus {
		fd, err := c.perfOpen(dir, cpu, unix.PERF_FLAG_PID_CGROUP)
		if err != nil {
			e.close()
			return nil, err
		}
		e.fds = append(e.fds, fd)
	}
	return e, nil
}

// read adds up over the CPUs.
func (e *events) read() (sum uint64) {
	if e == nil {
		return 0
	}
	var value [8]byte
	for _, fd := range e.fds {
		if n, err := unix.Read(fd, value[:]); err == nil && n == len(value) {
			sum += binary.NativeEndian.Uint64(value[:])
		}
	}
	return sum
}

func (e *events) close() {
	if e == nil {
		return
	}
	for _, fd := range e.fds {
		unix.Close(fd)
	}
	e.fds = nil
}
