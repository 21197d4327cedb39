// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
)

// countPrograms counts the marking programs in the kernel that mark under a mask:
// a mask that only one test uses tells its programs from those of other tests and
// of agents on the machine.
func countPrograms(t *testing.T, mask plan.Mask) int {
	t.Helper()
	count := 0
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if err != nil {
			return count
		}
		id = next
		// An error says that it is none of Weir's, or freed meanwhile.
		if c, err := identify(id); err == nil && c.keep == ^uint32(mask) {
			count++
		}
	}
}

// awaitNoPrograms waits until no program of the mask is there: the kernel frees
// them some time after their last use, on a busy machine seconds later.
func awaitNoPrograms(t *testing.T, mask plan.Mask) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		got := countPrograms(t, mask)
		if got == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d marking programs are left in the kernel", got)
			return
		}
	}
}

func countFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
