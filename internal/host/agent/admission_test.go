// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/core/refusal"
)

func TestAdmission(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit, reservable: 80%}]", func(t *testing.T, h *host) {
		h.start()
		h.run("a", "weir.min=50mbit")
		h.run("b")
		before := h.state("eth0")
		_, err := h.Set(t.Context(), "b", change("min=40mbit weight=9"), false)
		refused(t, err, refusal.NoRoom, "asked 40 Mbit/s", "reserved 50 Mbit/s", "free 30 Mbit/s", "30mbit")
		h.expect("refused as a whole", "eth0", before)
		if w := h.workload("b"); w.Origin["weight"] != "default" {
			t.Errorf("half of a refused change was kept: %+v", w.Origin)
		}
		h.run("c", "weir.min=40mbit", "weir.weight=4")
		h.expect("steered without its min", "eth0", `
			0 host weight 1
			1 a weight 1 min 50 Mbit/s: vetha
			2 b weight 1: vethb
			3 c weight 4: vethc`)
		w := h.workload("c")
		if w.State != "refused" || !strings.Contains(w.Note, "free 30 Mbit/s") {
			t.Errorf("state %s, note %q", w.State, w.Note)
		}
		h.set("c", "weight=5") // is no matter of the min
		h.set("b", "min=20mbit")
		_, err = h.Set(t.Context(), "a", change("min=70mbit"), false)
		refused(t, err, refusal.NoRoom, "free 60 Mbit/s")
		h.kill("a")
		seconds(31) // it does not come back, see TestMinIsKeptForARestart
		h.expect("room came free", "eth0", `
			0 host weight 1
			2 b weight 1 min 20 Mbit/s: vethb
			3 c weight 5 min 40 Mbit/s: vethc`)
		if w := h.workload("c"); w.State != "active" || w.Note != "" {
			t.Errorf("state %s, note %q", w.State, w.Note)
		}
		h.run("a", "weir.min=50mbit")
		if w := h.workload("a"); w.State != "refused" {
			t.Errorf("who came later displaced somebody: %+v", w)
		}
		s, err := h.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if l := s.Links[0]; l.ReservedBps != 60e6 || l.FreeBps != 20e6 || l.Workloads != 3 {
			t.Errorf("link %+v", l)
		}
	})
}

func TestSeniorityInConfiguration(t *testing.T) {
	inBubble(t, "workloads: {a: {min: 30mbit}, b: {min: 60mbit}}", func(t *testing.T, h *host) {
		next := parse(t, "workloads: {a: {min: 50mbit}, b: {min: 60mbit}}")
		h.load = func() (config.Config, error) { return next, nil }
		h.start()
		h.run("a")
		h.run("b")
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		h.expect("b keeps its min", "eth0", "0 host weight 1\n1 a weight 1: vetha\n2 b weight 1 min 60 Mbit/s: vethb")
	})
}
