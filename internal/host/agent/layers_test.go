// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"reflect"
	"strings"
	"testing"

	"weir/internal/core/policy"
)

func TestLayers(t *testing.T) {
	inBubble(t, `
defaults: {weight: 2}
workloads:
  "w*": {max: 50mbit, min: 15mbit}
  web: {max: 60mbit}
`, func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.min=10mbit", "weir.limit-packets=500")
		h.run("db")
		h.expect("labels over configuration over default", "eth0", `
			0 host weight 2
			1 web weight 2 min 10 Mbit/s max 60 Mbit/s limit 500/0: vethweb
			2 db weight 2: vethdb`)
		h.set("web", "weight=7 max=none")
		h.expect("run time over all", "eth0", `
			0 host weight 2
			1 web weight 7 min 10 Mbit/s limit 500/0: vethweb
			2 db weight 2: vethdb`)
		w := h.workload("web")
		for field, origin := range map[string]string{"weight": "set", "min": "label", "max": "set", "limit_packets": "label", "limit_bytes": "default"} {
			if w.Origin[field] != origin {
				t.Errorf("origin of %s is %q, want %q", field, w.Origin[field], origin)
			}
		}
		want := policy.Policy{Weight: 7, Min: policy.Amount{Rate: 10e6}, LimitPackets: 500}
		if !reflect.DeepEqual(w.Policy.Policy, want) || w.State != "active" || w.Class != 1 {
			t.Errorf("workload %+v", w)
		}
		h.set("web", "reset")
		h.expect("reset", "eth0", `
			0 host weight 2
			1 web weight 2 min 10 Mbit/s max 60 Mbit/s limit 500/0: vethweb
			2 db weight 2: vethdb`)
	})
}

func TestBadLabels(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.wieght=3", "weir.min=20mbps", "weir.max=50mbit")
		h.expect("good labels count", "eth0", "0 host weight 1\n1 web weight 1 max 50 Mbit/s: vethweb")
		w := h.workload("web")
		for _, words := range []string{"did you mean weir.weight?", "label weir.min", "160mbit"} {
			if !strings.Contains(w.Note, words) {
				t.Errorf("note %q does not say %q", w.Note, words)
			}
		}
		if w.State != "active" {
			t.Errorf("state %s", w.State)
		}
		h.run("db", "weir.pinned=true", "weir.apart=db", "weir.move=m-1")
		if w := h.workload("db"); w.Note != "" {
			t.Errorf("the cluster's labels are no trouble: %q", w.Note)
		}
	})
}
