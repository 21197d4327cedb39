// SPDX-License-Identifier: Apache-2.0

package rootlock

import (
	"bufio"
	"errors"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
)

// CPUHz reads the highest clock that a CPU of this host is said to have; where frequencies
// are not governed, as in most virtual machines, the one that it has.
func CPUHz() (uint64, error) {
	if text, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"); err == nil {
		if kHz, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
			return kHz * 1000, nil
		}
	}
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return clockIn(f)
}

// clockIn returns the highest clock in the text of /proc/cpuinfo, Hz.
func clockIn(r io.Reader) (hz uint64, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(name) != "cpu MHz" {
			continue
		}
		if mhz, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
			hz = max(hz, uint64(math.Round(mhz*1e6)))
		}
	}
	if err := lines.Err(); err != nil || hz > 0 {
		return hz, err
	}
	return 0, errors.New("/proc/cpuinfo has no clock")
}
