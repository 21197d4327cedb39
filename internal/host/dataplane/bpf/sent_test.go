// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"testing"

	"weir/internal/host/dataplane/hosttest"
)

// TestPacketsOfLeavingClasses: what a class sends is counted until it is empty, and an agent that
// comes later knows what all classes have sent.
func TestPacketsOfLeavingClasses(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skipf("needs a kernel with BPF qdiscs (vm/run has one): %v", err)
	}
	h := hosttest.New(t, 1)
	first := newBackend(t, h.Opts)
	h.Leaving(first)
	sent := h.Counters(first).Sent
	must(t, first.Close())
	if again := h.Counters(newBackend(t, h.Opts)).Sent; again != sent {
		t.Errorf("a later agent knows of %+v, want %+v", again, sent)
	}
}
