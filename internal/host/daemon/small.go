// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/base/program"
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
		if err := program.Release(unix.MADV_RANDOM, unix.MADV_PAGEOUT); err != nil {
			log.Warn("memory of the program's file is not given back", "err", err)
		}
	}
}
