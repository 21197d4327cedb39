// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"weir/internal/base/cgroup"
	"weir/internal/core/wire"
)

// member is a container that is being measured.
type member struct {
	pid      int
	files    files
	netDev   string // "" if its network is the host's
	limits   wire.CgroupLimits
	samples  int
	before   counters
	io       map[int]counters // of its processes, where they are asked one by one
	misses   *events
	transmit bool // before has what Weir counted, not the devices
}

// counters grow.
type counters struct {
	cpu, throttled uint64 // ns
	read, written  uint64 // bytes
	sent, received uint64 // bytes
	waited         [3]uint64
	misses         uint64
}

// files has the paths of a container's counters; "" where there are none.
type files struct {
	unified string // its cgroup of version 2
	// Of version 1, its folder below each controller.
	cpu, cpuacct, memory, pids string
	serviced                   string // bytes of block I/O, with those of the cgroups below where the kernel adds them up
	counts                     bool   // the cgroup of version 2 has controllers: the files of version 1 do not count
}

// member returns the sampler's record of a container, and makes it if there is
// none; nil if the container's process is gone.
func (s *Sampler) member(c *Container) *member {
	m := s.known[c.ID]
	if m != nil && m.pid == c.PID {
		return m
	}
	if m != nil { // started anew
		m.close()
		delete(s.known, c.ID)
	}
	proc := filepath.Join(s.Roots.Proc, strconv.Itoa(c.PID))
	text, ok := s.reader.file(proc + "/cgroup")
	if !ok {
		return nil
	}
	m = &member{pid: c.PID, files: s.find(string(text), c.ID), io: map[int]counters{}}
	own, err := os.Readlink(proc + "/ns/net")
	host, hostErr := os.Readlink(filepath.Join(s.Roots.Proc, "self/ns/net"))
	if err != nil || hostErr != nil || own != host {
		m.netDev = proc + "/net/dev"
	}
	if s.perf != nil {
		if m.misses, err = s.perf.open(m.files, string(text), c.ID); err != nil {
			s.missing["llc_misses"] = err.Error()
		}
	}
	s.known[c.ID] = m
	return m
}

func (m *member) close() { m.misses.close() }

// find says where the counters of a container are, by its process's cgroups. A
// process that is in the root of a hierarchy is not measured there.
func (s *Sampler) find(text, id string) files {
	below := func(mount, path string) string {
		if own := cgroup.OfContainer(path, id); own != "" {
			path = own
		}
		if mount == "" || path == "" || path == "/" {
			return ""
		}
		return filepath.Join(mount, path)
	}
	legacy := func(controller string) string {
		return below(s.Roots.Legacy[controller], cgroup.OfController(text, controller))
	}
	f := files{unified: below(s.Roots.Cgroup, cgroup.Of(text)), cpu: legacy("cpu"), cpuacct: legacy("cpuacct"),
		memory: legacy("memory"), pids: legacy("pids")}
	if folder := legacy("blkio"); folder != "" {
		f.serviced = folder + "/blkio.throttle.io_service_bytes"
		if _, ok := s.reader.file(f.serviced + "_recursive"); ok {
			f.serviced += "_recursive"
		}
	}
	if f.unified != "" {
		_, f.counts = s.reader.file(f.unified + "/memory.current")
	}
	return f
}

// usage reads everything about a container.
func (s *Sampler) usage(m *member, c *Container, seconds float64) (u wire.Usage) {
	var now counters
	r := &s.reader
	m.files.cpuTime(r, &now)
	u.MemoryBytes, u.MemoryAnonymousBytes = m.files.memoryNow(r)
	u.Processes = int(m.files.processes(r))
	m.blockIO(s, &now)
	counted := c.Traffic != nil
	switch {
	case counted:
		now.sent, now.received = c.Traffic.Transmitted, c.Traffic.Received
	case m.netDev != "":
		if text, ok := r.file(m.netDev); ok {
			now.sent, now.received = netDev(text, notLoopback)
		}
	}
	pressure := m.files.pressure(r, &now)
	now.misses = m.misses.read()

	before := m.before
	if m.samples == 0 {
		before, seconds = now, 0
	}
	if counted != m.transmit { // another counter from now on
		before.sent, before.received = now.sent, now.received
	}
	m.before, m.transmit = now, counted
	m.samples++

	u.CPUCores = rate(now.cpu, before.cpu, seconds) / 1e9
	u.ThrottledShare = min(rate(now.throttled, before.throttled, seconds)/1e9, 1)
	u.BlockReadBytesPerSec = rate(now.read, before.read, seconds)
	u.BlockWriteBytesPerSec = rate(now.written, before.written, seconds)
	u.NetworkTransmitBps = 8 * rate(now.sent, before.sent, seconds)
	u.NetworkReceiveBps = 8 * rate(now.received, before.received, seconds)
	if pressure && seconds > 0 {
		u.Pressure = pressures(now.waited, before.waited, seconds)
	}
	if m.misses != nil && seconds > 0 {
		v := rate(now.misses, before.misses, seconds)
		u.LLCMissesPerSec = &v
	}
	return u
}

func pressures(now, before [3]uint64, seconds float64) *wire.Pressure {
	part := func(i int) float64 { return min(rate(now[i], before[i], seconds)/1e6, 1) }
	return &wire.Pressure{CPU: part(0), Memory: part(1), IO: part(2)}
}

func (f *files) cpuTime(r *reader, now *counters) {
	if f.unified != "" && f.cpuacct == "" {
		if text, ok := r.file(f.unified + "/cpu.stat"); ok {
			now.cpu, now.throttled = field(text, "usage_usec")*1000, field(text, "throttled_usec")*1000
		}
		return
	}
	if text, ok := r.file(f.cpuacct + "/cpuacct.usage"); ok {
		now.cpu = number(text)
	}
	if text, ok := r.file(f.cpu + "/cpu.stat"); ok {
		now.throttled = field(text, "throttled_time")
	}
}

// memoryNow returns the memory that a container holds, in bytes, without the part
// that the kernel could drop at once (as docker stats has it), and the part of it
// that is not of files.
func (f *files) memoryNow(r *reader) (bytes, anonymous uint64) {
	usage, stat, inactive, anon := f.memory+"/memory.usage_in_bytes", f.memory+"/memory.stat", "total_inactive_file", "total_rss"
	if f.counts {
		usage, stat, inactive, anon = f.unified+"/memory.current", f.unified+"/memory.stat", "inactive_file", "anon"
	}
	if text, ok := r.file(usage); ok {
		bytes = number(text)
	}
	if text, ok := r.file(stat); ok {
		bytes -= min(field(text, inactive), bytes)
		anonymous = field(text, anon)
	}
	return bytes, anonymous
}

func (f *files) processes(r *reader) uint64 {
	folder := f.pids
	if f.counts {
		folder = f.unified
	}
	text, ok := r.file(folder + "/pids.current")
	if !ok {
		return 0
	}
	return number(text)
}

// blockIO takes the cgroup's counters, or those of its processes if there are none.
func (m *member) blockIO(s *Sampler, now *counters) {
	if m.files.counts {
		if text, ok := s.reader.file(m.files.unified + "/io.stat"); ok {
			now.read, now.written = ioStat(text)
			return
		}
	}
	if m.files.serviced != "" {
		if text, ok := s.reader.file(m.files.serviced); ok {
			var counted bool
			if now.read, now.written, counted = serviced(text); counted {
				return
			}
		}
	}
	m.processIO(s, now)
}

// asked bounds how many processes of a container are asked for their block I/O.
const asked = 64

// processIO goes on from the last sum with what each process has done since. A
// process that is new brings all that it has done.
func (m *member) processIO(s *Sampler, now *counters) {
	now.read, now.written = m.before.read, m.before.written
	text, ok := s.reader.file(m.files.folder() + "/cgroup.procs")
	if !ok {
		return
	}
	var pids []int
	for line := range bytes.Lines(text) {
		if pid := number(line); pid > 0 && len(pids) < asked {
			pids = append(pids, int(pid))
		}
	}
	seen := make(map[int]counters, len(pids))
	for _, pid := range pids {
		text, ok := s.reader.file(filepath.Join(s.Roots.Proc, strconv.Itoa(pid), "io"))
		if !ok {
			continue
		}
		own := counters{read: field(text, "read_bytes:"), written: field(text, "write_bytes:")}
		before, known := m.io[pid]
		if !known && m.samples == 0 {
			before = own
		}
		now.read += own.read - min(before.read, own.read)
		now.written += own.written - min(before.written, own.written)
		seen[pid] = own
	}
	m.io = seen
}

// folder returns a cgroup folder, of either version, that has the container's processes.
func (f *files) folder() string {
	for _, folder := range []string{f.memory, f.cpuacct, f.cpu, f.pids} {
		if folder != "" {
			return folder
		}
	}
	return f.unified
}

var pressureFiles = [3]string{"/cpu.pressure", "/memory.pressure", "/io.pressure"}

func (f *files) pressure(r *reader, now *counters) (known bool) {
	if f.unified == "" {
		return false
	}
	for i, name := range pressureFiles {
		text, ok := r.file(f.unified + name)
		if !ok {
			return false
		}
		now.waited[i] = Waited(text)
	}
	return true
}

func (f *files) limits(r *reader) (l wire.CgroupLimits) {
	if f.counts {
		if text, ok := r.file(f.unified + "/memory.max"); ok {
			l.MemoryBytes = limited(number(text)) // "max" is no number
		}
		if text, ok := r.file(f.unified + "/cpu.max"); ok {
			l.CPUCores = quota(text)
		}
		return l
	}
	if text, ok := r.file(f.memory + "/memory.limit_in_bytes"); ok {
		l.MemoryBytes = limited(number(text))
	}
	if text, ok := r.file(f.cpu + "/cpu.cfs_quota_us"); ok { // "-1" is no number
		micros := number(text)
		if text, ok = r.file(f.cpu + "/cpu.cfs_period_us"); ok && number(text) > 0 {
			l.CPUCores = float64(micros) / float64(number(text))
		}
	}
	return l
}
