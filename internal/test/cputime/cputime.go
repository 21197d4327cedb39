// SPDX-License-Identifier: Apache-2.0

// Package cputime says what programs under test cost. In a virtual machine in virtual time a
// nanosecond of CPU time is an instruction, so that a bar means the same on every host.
package cputime

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Of returns the CPU time that the threads of a process have had, in user and kernel mode, by
// /proc/PID/task/TID/schedstat. Threads that have ended do not count.
func Of(pid int) (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("process %d has %d threads: %w", pid, len(threads), err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", thread, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}
