// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"weir/internal/discover"
	"weir/internal/policy"
)

// A device has its limit while it is a steered workload's, changes it with the link's
// capacity, and gets the former one back when the workload goes.
func TestOffloadIsGivenBack(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		limits := map[string]policy.Rate{}
		var failing error
		h.limit = func(dev discover.Device, capacity policy.Rate) error {
			if failing == nil {
				limits[dev.Name] = capacity
			}
			return failing
		}
		h.restore = func(dev discover.Device) error {
			if dev.PeerNetns == "" || limits[dev.Name] == 0 {
				t.Errorf("%+v was never limited", dev)
			}
			delete(limits, dev.Name)
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
		inside := func(name string) {
			h.docker.change(func(list map[string]discover.Workload) {
				w := container(name)
				w.Devices[0].PeerNetns = "/proc/1/ns/net"
				list[w.Key] = w
			})
			seconds(1)
		}
		inside("a")
		inside("b")
		h.run("tap") // a process holds its other end: it has no peer device
		expect("all", "vetha 100 Mbit/s, vethb 100 Mbit/s")
		h.kill("b")
		seconds(1)
		expect("one is gone", "vetha 100 Mbit/s")
		failing = errors.New("not now")
		h.reload("links: [{device: eth0, egress: 50mbit}]")
		expect("the capacity has changed, and it fails", "vetha 100 Mbit/s")
		failing = nil
		inside("b")
		expect("the next decision tries again", "vetha 50 Mbit/s, vethb 50 Mbit/s")
		h.kill("a")
		h.kill("b")
		seconds(1)
		expect("all are gone", "")
	})
}
