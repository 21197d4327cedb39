// SPDX-License-Identifier: Apache-2.0

package ifb

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/core/plan"
)

// A frame to many that the link brought once, and that a bridge copies to the ports of workloads,
// counts once, and each of them receives it.
func TestCopiesCountOnce(t *testing.T) {
	for _, local := range []bool{false, true} {
		t.Run(fmt.Sprintf("local %v", local), func(t *testing.T) {
			kinds(t, func(t *testing.T, kind string) {
				b := newBed(t, kind, 3)
				backend := b.backend(local)
				b.Set(backend, b.state(100*mbit, plan.Class{Weight: 1}, plan.Class{Weight: 1}, plan.Class{Weight: 1}))
				b.Server.Run("ip", "route", "add", "224.0.0.0/4", "dev", "eth0")
				got := func() (list []int) {
					for _, box := range b.Boxes {
						var n int
						if _, err := fmt.Sscan(box.Run("cat", "/sys/class/net/eth0/statistics/rx_packets"), &n); err != nil {
							t.Fatal(err)
						}
						list = append(list, n)
					}
					return list
				}
				before, had := b.Counters(backend), got()
				const frames = 200
				b.Server.Run("sh", "-c", fmt.Sprintf("ping -q -c %d -i 0.01 -W 0.1 239.1.1.1 || true", frames))
				after := b.Counters(backend)
				var counted uint64
				for id := range plan.ClassID(4) {
					counted += after.Classes[id].SentPackets - before.Classes[id].SentPackets
				}
				if counted < frames || counted > frames+frames/4 { // ARP, MLD and the like come to it
					t.Errorf("%d frames are counted, %d came by the link", counted, frames)
				}
				for i, n := range got() {
					if n-had[i] < frames {
						t.Errorf("container %d received %d of %d frames", i+1, n-had[i], frames)
					}
				}
				if text := b.Netns.Run("tc", "-s", "qdisc", "show", "dev", "weir-in-up0"); strings.Contains(text, "dropped 1") {
					t.Errorf("frames were dropped:\n%s", text)
				}
			})
		})
	}
}
