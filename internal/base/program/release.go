// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Release lets go of all pages of the running program's file that cannot have been written: most of
// them only its start has read. The advices are those of madvise that say how, one after another:
// MADV_DONTNEED leaves the file in the kernel's cache, MADV_PAGEOUT takes it out of that as well. A
// page that is read again comes back.
func Release(advices ...int) error {
	file, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	list, err := readOnly(maps, file)
	for _, r := range list {
		for _, advice := range advices {
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, r.start, r.end-r.start, uintptr(advice)); errno != 0 {
				err = errors.Join(err, fmt.Errorf("madvise: %w", errno))
			}
		}
	}
	return err
}

// addresses are those from start to before end.
type addresses struct{ start, end uintptr }

// readOnly returns where a file is mapped without being writable, by a text such as
// /proc/self/maps.
func readOnly(maps io.Reader, file string) (list []addresses, err error) {
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		// 00400000-01f58000 r-xp 00000000 fe:00 9987942    /usr/bin/weir
		fields := strings.SplitN(lines.Text(), " ", 6)
		if len(fields) < 6 || strings.TrimLeft(fields[5], " ") != file || !strings.HasPrefix(fields[1], "r-") {
			continue
		}
		var r addresses
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &r.start, &r.end); err != nil {
			return list, fmt.Errorf("addresses %q: %w", fields[0], err)
		}
		list = append(list, r)
	}
	return list, lines.Err()
}
