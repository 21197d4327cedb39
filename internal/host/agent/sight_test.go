// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"weir/internal/core/event"
)

// Other parts of the program that look see the links and the workloads of the moment.
func TestObserversSeeLinksAndWorkloads(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		var seen string
		h.observed = func(s *event.Sight) {
			seen = ""
			for _, l := range s.Links {
				seen += l.Device + " "
			}
			for _, o := range s.Objects {
				seen += o.Name + " "
			}
		}
		h.start()
		h.run("web")
		seconds(2)
		if want := "eth0 host web "; seen != want {
			t.Errorf("seen %q, want %q", seen, want)
		}
	})
}
