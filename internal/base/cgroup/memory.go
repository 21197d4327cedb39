// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// LimitMemory makes Go collect garbage in time to stay below 90 % of the memory that the cgroup of
// this process may have, such as by MemoryMax= of its unit: by itself Go lets the heap double
// before it looks, and the kernel ends a process whose heap is mostly garbage. The rest is for what
// is no heap of Go's and counts there too: maps of BPF, files in the cache, the kernel's own.
// GOMEMLIMIT, if it is set, counts instead.
func LimitMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		path, own := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if mounts := Mounts(); own && len(mounts) > 0 {
			if most := memoryMax(mounts[0], path); most < math.MaxInt64 {
				debug.SetMemoryLimit(most / 10 * 9)
			}
		}
	}
}

// memoryMax returns the least memory.max of a cgroup and of those above it, in bytes;
// math.MaxInt64 = none has one.
func memoryMax(root, path string) int64 {
	least := int64(math.MaxInt64)
	for path = filepath.Join("/", path); ; path = filepath.Dir(path) {
		if text, err := os.ReadFile(filepath.Join(root, path, "memory.max")); err == nil { // of the root there is none
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil { // or "max"
				least = min(least, n)
			}
		}
		if path == "/" {
			return least
		}
	}
}
