// SPDX-License-Identifier: Apache-2.0

// Package profile measures what the containers of this node use: every few seconds
// a Sampler reads the kernel's counters and makes a wire.Profile of what has become
// of them since the last time.
//
//	s := profile.New(profile.Options{Node: "a", Links: []profile.Link{{Device: "eth0", TransmitBps: 1e9}}})
//	go s.Run(ctx, profile.Interval, containers, publish)
//
// Which containers there are it is told (Container): the agent knows. A container is
// its cgroup, which is found by its first process:
//
//	what          cgroups of version 2    of version 1                    without either
//	CPU           cpu.stat                cpuacct.usage, cpu.stat
//	memory        memory.current, .stat   memory.usage_in_bytes, .stat
//	block I/O     io.stat                 blkio.throttle.io_service_bytes /proc/PID/io of its processes
//	processes     pids.current            pids.current
//	pressure      cpu/memory/io.pressure  (those of version 2, if it is in one)
//	network       /proc/PID/net/dev, or what Weir has counted, if it is told
//	cache misses  perf_event_open on the cgroup, where the machine counts them
//
// A host may have both versions. Kernels do not count block I/O in version 1 before
// a disk has been limited once. As long as a container's counters are empty there,
// the sampler adds up the counters of its processes. It then loses the I/O of
// processes that have ended since.
//
// It reads files and opens nothing for longer than that, but the events that count
// cache misses. It writes nothing.
package profile
