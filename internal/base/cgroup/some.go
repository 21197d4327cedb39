// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mostText is how many bytes are read of a cgroup's list of processes.
const mostText = 64 << 10

// Some returns up to most of the processes in a cgroup, not in those below it. Those that the
// kernel lists first are among them; half are others each time, since who is first may be a
// process's own choice.
func Some(folder string, most int) (pids []int) {
	file, err := os.Open(filepath.Join(folder, "cgroup.procs"))
	if err != nil {
		return nil
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostText))
	if err != nil {
		return nil
	}
	lines := slices.Collect(strings.Lines(string(text)))
	if first := most / 2; len(lines) > most {
		rand.Shuffle(len(lines)-first, func(i, j int) { lines[first+i], lines[first+j] = lines[first+j], lines[first+i] })
	}
	for _, line := range lines[:min(len(lines), most)] {
		number, whole := strings.CutSuffix(line, "\n")
		if pid, err := strconv.Atoi(number); whole && err == nil && pid != 0 { // 0: of another PID namespace
			pids = append(pids, pid)
		}
	}
	return pids
}
