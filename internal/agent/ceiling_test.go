// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"
	"testing/synctest"

	"weir/internal/agent/memory"
	"weir/internal/discover"
)

// notes checks that a workload's note has all of the words and nothing else refused.
func (h *host) notes(name string, words ...string) {
	h.t.Helper()
	note := h.workload(name).Note
	if len(words) == 0 && note != "" {
		h.t.Errorf("%s: unexpected note %q", name, note)
	}
	for _, w := range words {
		if !strings.Contains(note, w) {
			h.t.Errorf("%s: note %q does not say %q", name, note, w)
		}
	}
}

// A label takes nothing that the administrator has not given: his max and min are
// ceilings, his group stays, and the rest of the labels holds.
func TestLabelsStayBelowTheAdministrator(t *testing.T) {
	inBubble(t, `
defaults: {max: 50mbit}
labels: {allow: [weight, min, max, group, reserve, limit_packets]}
groups: {office: {weight: 1}, tenant: {weight: 9}}
workloads:
  web: {min: 10mbit, group: office, limit_packets: 100}
  share: {max: 40%}
  paced: {reserve: 5mbit}`, func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.weight=5", "weir.min=30mbit", "weir.max=80mbit", "weir.group=tenant", "weir.limit-packets=5000")
		h.expect("above", "eth0", `
			0 host weight 1 max 50 Mbit/s
			1 office weight 1 min 10 Mbit/s
			2 tenant weight 9
			3 web weight 5 min 10 Mbit/s max 50 Mbit/s limit 100/0: vethweb`)
		if g := h.workload("web").Policy.Group; g != "office" {
			t.Errorf("web is in group %s", g)
		}
		h.notes("web", "label weir.max 80mbit does not count: the administrator's max is 50mbit; write 50mbit or less, or raise it in weir.yaml",
			"label weir.min 30mbit does not count: the administrator's min is 10mbit",
			"label weir.group tenant does not count: the administrator's group is office",
			"label weir.limit-packets 5000 does not count: the administrator's limit_packets is 100")
		h.run("web", "weir.min=4mbit", "weir.max=20mbit", "weir.limit-packets=50")
		h.expect("below", "eth0", `
			0 host weight 1 max 50 Mbit/s
			1 office weight 1 min 4 Mbit/s
			2 tenant weight 9
			3 web weight 1 min 4 Mbit/s max 20 Mbit/s limit 50/0: vethweb`)
		h.notes("web")

		// A max is not taken away, and a share of the link is compared as what it is there.
		h.run("web", "weir.max=none")
		h.notes("web", "label weir.max none does not count")
		h.run("share", "weir.max=41mbit")
		h.notes("share", "label weir.max 41mbit does not count: the administrator's max is 40%")
		h.run("share", "weir.max=39mbit")
		h.notes("share")
		h.run("free", "weir.min=10mbit", "weir.group=tenant") // nobody says otherwise
		h.notes("free")
		h.run("paced", "weir.reserve=none")
		h.notes("paced", "label weir.reserve none does not count: the administrator's reserve is 5mbit")
		h.run("paced", "weir.reserve=6mbit")
		h.notes("paced", "label weir.reserve 6mbit does not count")
		// A reservation is a min by another name.
		h.run("web", "weir.reserve=30mbit")
		h.notes("web", "label weir.reserve 30mbit does not count: the administrator's min is 10mbit")
	})
}

// Unless weir.yaml says so, labels name neither a group nor a DSCP.
func TestLabelsThatAreNotAllowed(t *testing.T) {
	inBubble(t, "groups: {tenant: {weight: 9}}", func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.weight=3", "weir.group=tenant", "weir.dscp=ef", "weir.ingress.dscp=ef")
		h.expect("the rest holds", "eth0", "0 host weight 1\n1 tenant weight 9\n2 web weight 3: vethweb")
		h.notes("web", "label weir.group does not count: labels may not say group here; allow it in weir.yaml, labels: {allow: [..., group]}, or use weir set",
			"label weir.dscp does not count", "label weir.ingress.dscp does not count")
		h.run("voice", "weir.discipline=pq", "weir.queues={a: {dscp: ef, match: [{udp: 5001}]}, b: {}}")
		h.notes("voice", "label weir.queues: dscp does not count")
		if q := h.workload("voice").Policy.Queues; len(q) != 2 || q[0].DSCP != nil {
			t.Errorf("queues %+v", q)
		}
	})
	inBubble(t, "labels: {allow: []}", func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.weight=3", "weir.min=5mbit")
		h.expect("no labels at all", "eth0", "0 host weight 1\n1 web weight 1: vethweb")
		h.notes("web", "label weir.weight does not count", "label weir.min does not count")
	})
}

// The author of an image is not who runs it.
func TestLabelsOfAnImage(t *testing.T) {
	baked := func(h *host) {
		h.run("web", "weir.weight=1000", "weir.min=50mbit", "weir.max=60mbit")
		h.docker.change(func(list map[string]discover.Workload) {
			w := list["docker:web"]
			// What the container says anew is the container's.
			w.ImageLabels = map[string]string{"weir.weight": "1000", "weir.min": "50mbit", "weir.max": "70mbit"}
			list["docker:web"] = w
		})
		synctest.Wait()
	}
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		baked(h)
		const want = "0 host weight 1\n1 web weight 1 max 60 Mbit/s: vethweb"
		h.expect("only the container's", "eth0", want)
		h.notes("web", "labels weir.min, weir.weight do not count: they come with the image; give them to the container, or allow those of images in weir.yaml, labels: {images: true}")
		kept := memory.Of(h.decided.World, h.finder.seen()).Seen["docker"][0].Found(func(string, int) bool { return true })
		if len(kept.ImageLabels) != 3 {
			t.Errorf("after a restart, before the engine has answered: %v", kept.ImageLabels)
		}
	})
	inBubble(t, "labels: {images: true}", func(t *testing.T, h *host) {
		h.start()
		baked(h)
		h.expect("allowed", "eth0", "0 host weight 1\n1 web weight 1000 min 50 Mbit/s max 60 Mbit/s: vethweb")
		h.notes("web")
	})
}
