// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"time"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
)

// Leaving checks that a backend counts what a class sends until it has gone, also when packets wait
// in it as the plan loses it, and that the link's own counter is the sum of all. It needs a
// container.
func (h *Host) Leaving(b dataplane.Backend) {
	h.T.Helper()
	const packets = 40
	h.Boxes[0].Run("ip", "neigh", "add", ServerAt, "lladdr", "02:00:00:00:00:63", "dev", "eth0")
	state := h.State(plan.Link{Capacity: 100 * Mbit}, plan.Class{Weight: 1, Max: 200_000})
	h.Set(b, state)
	h.Boxes[0].Run("bash", "-c", fmt.Sprintf("exec 3>/dev/udp/%s/9; for ((i = 0; i < %d; i++)); do printf %%01000d 0 >&3; done", ServerAt, packets))
	waiting := h.Counters(b).Classes[1]
	if waiting.EnqueuedPackets < packets || waiting.BacklogPackets == 0 {
		h.T.Fatalf("no packets wait: %+v", waiting)
	}
	state.Classes, state.Ports = state.Classes[:1], nil
	h.Set(b, state)
	var last dataplane.Leaving
	for deadline := time.Now().Add(10 * time.Second); last.Packets < waiting.EnqueuedPackets && !last.Gone; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.T.Fatalf("the class has sent %+v of %+v", last, waiting)
		}
		s := h.Counters(b)
		if _, there := s.Classes[1]; there {
			h.T.Fatal("the class is still among those of the plan")
		}
		for _, l := range s.Leaving {
			last = l
		}
	}
	if last.Packets != waiting.EnqueuedPackets || last.Bytes != waiting.EnqueuedBytes {
		h.T.Errorf("the class has sent %+v, want %d packets and %d bytes", last, waiting.EnqueuedPackets, waiting.EnqueuedBytes)
	}
	s := h.Counters(b)
	if sum := last.Bytes + s.Classes[0].SentBytes; s.Sent.Bytes != sum {
		h.T.Errorf("the link has counted %d bytes, and its classes %d", s.Sent.Bytes, sum)
	}
}
