// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"
	"testing/synctest"
)

// A link's device that comes, or is another one by now, is steered at once, and not when the next
// attempt is due.
func TestDevicesAreFollowed(t *testing.T) {
	inBubble(t, "links: [{device: wwan0, egress: 10mbit}, {device: eth0, egress: 100mbit}]", func(t *testing.T, h *host) {
		indices := map[string]int{"eth0": 2}
		h.index = func(name string) int { return indices[name] }
		h.changed = make(chan struct{})
		change := func() {
			h.changed <- struct{}{}
			synctest.Wait()
		}
		h.start()
		h.run("a")
		seconds(30) // attempts are 8 s apart
		const want = "0 host weight 1\n1 a weight 1: vetha"
		h.kernel.AddDevice("wwan0")
		indices["wwan0"] = 7
		change()
		h.expect("it came", "wwan0", want)

		h.kernel.RemoveDevice("wwan0")
		h.kernel.AddDevice("wwan0")
		indices["wwan0"] = 8
		change()
		h.expect("another has its name", "wwan0", want)

		sets := h.kernel.Sets("eth0")
		change()
		if now := h.kernel.Sets("eth0"); now != sets {
			t.Errorf("a change of other devices set the link %d times", now-sets)
		}
	})
}

// Of two links that are one device the second is refused, by name, until the first is gone.
func TestOneDeviceTwice(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit}, {device: eth1, egress: 10mbit}]", func(t *testing.T, h *host) {
		h.index = func(string) int { return 2 }
		h.start()
		seconds(3)
		s, err := h.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := "link eth1: eth1 is another name of the device of link eth0; remove one of the two from links"
		if got := s.Links[1].Error; got != want || s.Links[0].Error != "" || h.kernel.Sets("eth1") != 0 {
			t.Errorf("%q, want %q; the first: %q", got, want, s.Links[0].Error)
		}
		if n := strings.Count(h.log.String(), want); n == 0 || n > 2 {
			t.Errorf("%d lines say it", n)
		}
		h.reload("links: [{device: eth1, egress: 10mbit}]")
		seconds(9)
		h.expect("alone", "eth1", "0 host weight 1")
	})
}
