// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"weir/internal/core/plan"
	"weir/internal/core/refusal"
	"weir/internal/host/discover"
)

func TestWaitingAndUnsteered(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.docker.change(func(list map[string]discover.Workload) {
			late := container("late")
			late.Devices = nil
			hosted := container("hosted", "weir.min=60mbit")
			hosted.Devices, hosted.Note = nil, "uses the host's network"
			list[late.Key], list[hosted.Key] = late, hosted
		})
		h.expect("class without port", "eth0", "0 host weight 1\n1 late weight 1")
		if w := h.workload("late"); w.State != "waiting" {
			t.Errorf("state %s", w.State)
		}
		w := h.workload("hosted")
		if w.State != "unsteered" || w.Note != "uses the host's network" || len(w.Links) != 0 {
			t.Errorf("%+v", w)
		}
		seconds(2)
		e, err := h.Explain(t.Context(), "hosted")
		if err != nil || !strings.Contains(e.Links[0].Text[0], "not steered") {
			t.Errorf("%+v, %v", e, err)
		}
		h.run("late")
		h.expect("network is up", "eth0", "0 host weight 1\n1 late weight 1: vethlate")
	})
}

func TestRename(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		h.run("db")
		h.set("web", "min=60mbit")
		h.set("db", "min=30mbit")
		h.docker.change(func(list map[string]discover.Workload) {
			w := list["docker:web"]
			delete(list, "docker:web")
			w.Key, w.Name = "docker:front", "front"
			list[w.Key] = w
		})
		h.expect("class, place and settings go along", "eth0", `
			0 host weight 1
			1 front weight 1 min 60 Mbit/s: vethweb
			2 db weight 1 min 30 Mbit/s: vethdb`)
		_, err := h.Workload(t.Context(), "web")
		refused(t, err, refusal.Unknown)
	})
}

func TestChurn(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("survivor", "weir.min=10mbit")
		want := h.state("eth0")
		for i := range 200 {
			name := "churn" + string(rune('a'+i%26)) + string(rune('a'+i/26))
			h.run(name)
			if i%3 == 0 {
				seconds(1)
			}
			h.kill(name)
		}
		h.expect("after the churn", "eth0", want)
		seconds(1)
		if n := h.kernel.OpenBackends("eth0"); n != 1 {
			t.Errorf("%d backends are open", n)
		}
		if list, _ := h.Workloads(t.Context()); len(list) != 2 {
			t.Errorf("%d workloads", len(list))
		}
		n := 0
		for id := range plan.ClassID(4096) {
			if h.links[0].history.Of(id) != nil {
				n++
			}
		}
		if n > 2 {
			t.Errorf("history of %d classes", n)
		}
	})
}
