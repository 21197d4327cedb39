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

	"weir/internal/core/bound"
)

// Text returns what the kernel says of a process's cgroups, the text for Of and OfController;
// proc is where procfs is mounted. Paths in it have 4 KiB at most.
func Text(proc string, pid int) (string, error) {
	return beginning(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
}

// beginning returns as much of a file as is read of any.
func beginning(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, bound.Cgroups))
	return string(text), err
}

// Some returns up to most of the processes in a cgroup, not in those below it. Those that the
// kernel lists first are among them; half are others each time, since who is first may be a
// process's own choice.
func Some(folder string, most int) (pids []int) {
	text, err := beginning(filepath.Join(folder, "cgroup.procs"))
	if err != nil {
		return nil
	}
	lines := slices.Collect(strings.Lines(text))
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
