// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"weir/internal/host/discover"
)

func TestRestart(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("c", "weir.min=40mbit")
		h.run("b")
		h.run("a", "weir.min=50mbit")
		h.set("b", "weight=5")
		h.set("host", "weight=2")
		const want = `
			0 host weight 2
			1 c weight 1 min 40 Mbit/s: vethc
			2 b weight 5: vethb
			3 a weight 1 min 50 Mbit/s: vetha`
		h.expect("before", "eth0", want)
		h.stop()
		h.expect("nothing stops with the agent", "eth0", want)
		sets := h.kernel.Sets("eth0")
		h.docker.mute = true // the engine takes its time
		h.start()
		seconds(60)
		h.expect("engine silent", "eth0", want)
		h.docker.mute = false
		h.docker.change(func(map[string]discover.Workload) {})
		seconds(2)
		h.expect("after", "eth0", want)
		if got := h.kernel.Sets("eth0"); got != sets {
			t.Errorf("%d changes by a restart", got-sets)
		}
		h.kill("b")
		h.stop()
		h.start()
		h.run("b")
		h.expect("back with what was set", "eth0", want)
	})
}
