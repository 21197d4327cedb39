// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"

	"weir/internal/core/wire"
)

// hostCounters has the counters of the whole node.
type hostCounters struct {
	counters
	ticks uint64
	known bool
}

// ticksPerSecond are the unit of /proc/stat, the same on all of Linux's machines.
const ticksPerSecond = 100

// node measures the node itself: its CPUs, its memory, its disks, and the links
// that were named.
func (s *Sampler) node(seconds float64) (u wire.Usage, k wire.Capacity) {
	var now hostCounters
	now.known = true
	r, proc := &s.reader, s.Roots.Proc
	cpus := 0
	if text, ok := r.file(proc + "/stat"); ok {
		now.ticks, cpus = busy(text)
	}
	if text, ok := r.file(proc + "/meminfo"); ok {
		k.MemoryBytes = field(text, "MemTotal:") * 1024 // in KiB there
		u.MemoryBytes = k.MemoryBytes - min(field(text, "MemAvailable:")*1024, k.MemoryBytes)
		u.MemoryAnonymousBytes = field(text, "AnonPages:") * 1024
	}
	if text, ok := r.file(proc + "/diskstats"); ok {
		now.read, now.written = diskStats(text)
	}
	if text, ok := r.file(proc + "/net/dev"); ok && len(s.Links) > 0 {
		now.sent, now.received = netDev(text, s.isLink)
	}
	pressure := true
	for i, name := range pressureFiles {
		text, ok := r.file(proc + "/pressure" + name[:len(name)-len(".pressure")])
		now.waited[i] = Waited(text)
		pressure = pressure && ok
	}
	before := s.host
	if s.host = now; !before.known {
		before, seconds = now, 0
	}
	u.CPUCores = rate(now.ticks, before.ticks, seconds) / ticksPerSecond
	u.BlockReadBytesPerSec = rate(now.read, before.read, seconds)
	u.BlockWriteBytesPerSec = rate(now.written, before.written, seconds)
	u.NetworkTransmitBps = 8 * rate(now.sent, before.sent, seconds)
	u.NetworkReceiveBps = 8 * rate(now.received, before.received, seconds)
	if pressure && seconds > 0 {
		u.Pressure = pressures(now.waited, before.waited, seconds)
	}
	return u, s.capacity(cpus, k.MemoryBytes)
}

func (s *Sampler) isLink(device []byte) bool {
	for i := range s.Links {
		if s.Links[i].Device == string(device) {
			return true
		}
	}
	return false
}

// capacity returns the capacity that was given, with measured values where none was
// given.
func (s *Sampler) capacity(cpus int, memory uint64) wire.Capacity {
	k := s.Capacity
	k.CPUCores = cmp.Or(k.CPUCores, float64(cpus))
	k.MemoryBytes = cmp.Or(k.MemoryBytes, memory)
	for _, l := range s.Links {
		k.NetworkTransmitBps += l.TransmitBps
		k.NetworkReceiveBps += l.ReceiveBps
		k.GuaranteedBps += l.GuaranteedBps
		k.GuaranteedElsewhereBps += l.ElsewhereBps
	}
	return k
}
