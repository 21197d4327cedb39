// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	smallGC    = 50               // percent by which the heap may grow until it is collected; Go's own is 100
	smallAfter = 10 * time.Second // that its start needs, with what it looks up first
	smallEvery = time.Minute      // between two times that memory is given back
)

// BeginSmall makes this process take less memory from now on, for the profile small: no huge
// pages, of which a small heap uses a part only, and the garbage is collected twice as often,
// unless GOGC says how often.
func BeginSmall(log *slog.Logger) {
	if err := unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0); err != nil {
		log.Warn("huge pages are not switched off", "err", err)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(smallGC)
	}
}

// StaySmall gives memory back until ctx ends, after BeginSmall: what is free, each minute.
// Once, pages of the program's file that only its start has read leave memory, the kernel's
// cache included: those that are needed again are read one by one, without their neighbours.
//
// Example: of 34 MB of the file that a start has brought into memory, 17 are there after.
func StaySmall(ctx context.Context, log *slog.Logger) {
	for wait, first := smallAfter, true; ; wait, first = smallEvery, false {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		debug.FreeOSMemory()
		if !first {
			continue
		}
		if err := releaseProgram(); err != nil {
			log.Warn("memory of the program's file is not given back", "err", err)
		}
	}
}

// releaseProgram lets go of all pages of the program's file that cannot have been written.
func releaseProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	list, err := readOnly(maps, program)
	for _, r := range list {
		for _, advice := range []uintptr{unix.MADV_RANDOM, unix.MADV_PAGEOUT} {
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, r.start, r.end-r.start, advice); errno != 0 {
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
