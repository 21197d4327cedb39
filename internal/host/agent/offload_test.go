// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"weir/internal/core/policy"
	"weir/internal/host/discover"
)

// A device has its limit while it is a steered workload's that has a reservation, changes it with
// the link's capacity, and gets the former one back with the end of reservation or workload.
func TestOffloadIsGivenBack(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		limits := map[string]policy.Rate{}
		var failing error
		h.offload.Log = slog.New(slog.DiscardHandler)
		h.offload.Set = func(dev discover.Device, capacity policy.Rate) error {
			if failing == nil {
				limits[dev.Name] = capacity
			}
			return failing
		}
		h.offload.Restore = func(dev discover.Device) error {
			if dev.PeerNetns == "" || limits[dev.Name] == 0 {
				t.Errorf("%+v was never limited", dev)
			}
			delete(limits, dev.Name)
			return nil
		}
		var kept []int // by each agent, of how many devices the limits of the agent before stay
		h.offload.RestoreOthers = func(except []int) error {
			kept = append(kept, len(except))
			return nil
		}
		h.start()
		expect := func(what, want string) {
			t.Helper()
			var have []string
			for _, name := range slices.Sorted(maps.Keys(limits)) {
				have = append(have, fmt.Sprintf("%s %v", name, limits[name]))
			}
			if got := strings.Join(have, ", "); got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		inside := func(name string, labels ...string) {
			h.docker.change(func(list map[string]discover.Workload) {
				w := container(name, labels...)
				w.Devices[0].PeerNetns = "/proc/1/ns/net"
				list[w.Key] = w
			})
			seconds(1)
		}
		inside("a")
		h.run("tap", "weir.reserve=10mbit") // a process holds its other end: it has no peer device
		expect("no reservation", "")
		h.set("a", "reserve=10mbit")
		inside("b", "weir.discipline=pq", "weir.queues={video: {reserve: 10mbit, match: [{tcp: 80}]}, rest: {}}")
		expect("a workload, and a queue of one", "vetha 100 Mbit/s, vethb 100 Mbit/s")
		h.set("a", "reserve=none")
		expect("no reservation any more", "vethb 100 Mbit/s")
		h.set("a", "reserve=10mbit")
		h.stop()
		h.start()
		seconds(1)
		expect("the next agent", "vetha 100 Mbit/s, vethb 100 Mbit/s")
		h.kill("b")
		seconds(1)
		expect("one is gone", "vetha 100 Mbit/s")
		failing = errors.New("not now")
		h.reload("links: [{device: eth0, egress: 50mbit}]")
		expect("the capacity has changed, and it fails", "vetha 100 Mbit/s")
		failing = nil
		inside("b", "weir.reserve=10mbit")
		expect("the next decision tries again", "vetha 50 Mbit/s, vethb 50 Mbit/s")
		h.kill("a")
		h.kill("b")
		seconds(1)
		expect("all are gone", "")
		if want := []int{0, 3}; !slices.Equal(kept, want) {
			t.Errorf("agents keep the limits of those before at %d devices, want %d", kept, want)
		}
	})
}
