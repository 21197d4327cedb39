// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// countPrograms counts the marking programs in the kernel.
func countPrograms(t *testing.T) int {
	t.Helper()
	count := 0
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if err != nil {
			return count
		}
		id = next
		prog, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // freed meanwhile
		}
		if info, err := prog.Info(); err == nil && info.Name == programName {
			count++
		}
		prog.Close()
	}
}

// awaitPrograms waits until no more than want programs are there: the kernel
// frees them some time after their last use. Other tests on the machine may add
// or remove some at the same time, so fewer are as good.
func awaitPrograms(t *testing.T, want int) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		got := countPrograms(t)
		if got <= want {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d marking programs in the kernel, %d before", got, want)
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
