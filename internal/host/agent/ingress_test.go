// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/config"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/host/discover"
)

const bothWays = "links: [{device: eth0, egress: 20mbit, ingress: 100mbit}]\n"

// A link's ingress is a link of its own: capacity, admission, policies, explanations.
func TestIngress(t *testing.T) {
	inBubble(t, bothWays+`
workloads:
  web: {weight: 3, min: 5mbit, ingress: {min: 30mbit, max: 50%}}
`, func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		h.run("batch", "weir.ingress.weight=4")
		h.expect("egress", "eth0", `
			0 host weight 1
			1 web weight 3 min 5 Mbit/s: vethweb
			2 batch weight 1: vethbatch`)
		h.expect("ingress", "eth0 ingress", `
			0 host weight 1
			1 web weight 1 min 30 Mbit/s max 50 Mbit/s: vethweb
			2 batch weight 4: vethbatch`)
		status, err := h.Status(t.Context())
		if err != nil || len(status.Links) != 2 {
			t.Fatalf("%+v, %v", status, err)
		}
		in := status.Links[1]
		if in.Device != "eth0" || in.Direction != "ingress" || in.CapacityBps != 100e6 || in.ReservedBps != 30e6 || in.FreeBps != 70e6 {
			t.Errorf("ingress: %+v", in)
		}
		w := h.workload("web")
		if len(w.Links) != 2 || w.Links[0].Direction != "egress" || w.Links[1].Direction != "ingress" || w.Links[1].MaxBps != 50e6 {
			t.Errorf("links %+v", w.Links)
		}
		if w.Origin["ingress.min"] != "config" || w.Policy.Ingress == nil || w.Policy.Ingress.Min.Compact() != "30mbit" {
			t.Errorf("policy %+v from %v", w.Policy, w.Origin)
		}
		seconds(2)
		e, err := h.Explain(t.Context(), "web")
		if err != nil || len(e.Links) != 2 || e.Links[1].Direction != "ingress" {
			t.Fatalf("%+v, %v", e, err)
		}
		if text := strings.Join(e.Links[1].Text, " "); !strings.Contains(text, "web receives nothing") || !strings.Contains(text, "100 Mbit/s") {
			t.Errorf("explained as %q", text)
		}
	})
}

// Each direction admits for itself, and says which one has no room.
func TestIngressAdmission(t *testing.T) {
	inBubble(t, bothWays, func(t *testing.T, h *host) {
		h.start()
		h.run("a", "weir.min=15mbit", "weir.ingress.min=90mbit")
		h.run("b")
		in := func(layer string) api.PolicyChange {
			c := change(layer)
			return api.PolicyChange{Change: policy.Change{Ingress: &c.Change}}
		}
		_, err := h.Set(t.Context(), "b", in("min=20mbit"), false)
		var refused *refusal.Error
		if !errors.As(err, &refused) || refused.Kind != refusal.NoRoom || refused.Field != "ingress.min" || refused.Value != "20mbit" ||
			!strings.Contains(refused.Msg, "link eth0 ingress has no room for it: asked 20 Mbit/s, reserved 90 Mbit/s of 100 Mbit/s") {
			t.Errorf("%+v", err)
		}
		if _, err := h.Set(t.Context(), "b", in("min=10mbit"), false); err != nil {
			t.Error(err)
		}
		if _, err := h.Set(t.Context(), "b", change("min=10mbit"), false); err == nil || !strings.Contains(err.Error(), "link eth0 has no room") {
			t.Errorf("%v", err)
		}
		_, err = h.Set(t.Context(), "b", in("max=5%"), false)
		if !errors.As(err, &refused) || refused.Kind != refusal.Invalid || refused.Field != "ingress.min" || !strings.HasSuffix(refused.Msg, "on link eth0 ingress") {
			t.Errorf("a max below the min: %+v", err)
		}
		h.expect("what was admitted", "eth0 ingress", `
			0 host weight 1
			1 a weight 1 min 90 Mbit/s: vetha
			2 b weight 1 min 10 Mbit/s: vethb`)
		// It is kept, and a new agent knows who came first.
		h.stop()
		h.start()
		h.expect("after a restart", "eth0 ingress", `
			0 host weight 1
			1 a weight 1 min 90 Mbit/s: vetha
			2 b weight 1 min 10 Mbit/s: vethb`)
	})
}

// Without a link whose ingress is steered, no workload is promised a share of downloads.
func TestNoIngress(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("a", "weir.ingress.min=1mbit") // a label does no harm
		one := "1mbit"
		_, err := h.Set(t.Context(), "a", apitest.Change("ingress.min", one), false)
		var refused *refusal.Error
		if !errors.As(err, &refused) || refused.Field != "ingress" || !strings.Contains(refused.Remedy, "--ingress") {
			t.Errorf("%v", err)
		}
	})
}

// What passes no port on its way in cannot be held, and that is said: where it is asked
// for, and of what a file says.
func TestIngressWithoutPort(t *testing.T) {
	inBubble(t, bothWays+"workloads:\n  unit: {ingress: {min: 1mbit}}\n", func(t *testing.T, h *host) {
		h.start()
		h.docker.change(func(list map[string]discover.Workload) {
			w := container("unit")
			w.Devices, w.Cgroups = nil, []string{"/sys/fs/cgroup/unit"}
			list[w.Key] = w
		})
		seconds(2)
		if w := h.workload("unit"); !strings.Contains(w.Note, "passes no port") {
			t.Errorf("note %q", w.Note)
		}
		h.expect("nothing is reserved", "eth0 ingress", "0 host weight 1\n1 unit weight 1")
		one := "1mbit"
		for _, name := range []string{"host", "unit"} {
			_, err := h.Set(t.Context(), name, apitest.Change("ingress.max", one), false)
			var refused *refusal.Error
			if !errors.As(err, &refused) || refused.Kind != refusal.Invalid || refused.Field != "ingress" || !strings.Contains(refused.Msg, "passes no port") || refused.Remedy == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := h.Attach(t.Context(), api.AttachRequest{Name: "web", Unit: "nginx.service", Policy: apitest.Change("ingress.max", one)}, true); err == nil || !strings.Contains(err.Error(), "passes no port") {
			t.Errorf("attach: %v", err)
		}
	})
}

// The configuration may begin and end to steer the ingress; packets of cgroups pass
// no port on their way in.
func TestIngressComesAndGoes(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		next := ""
		h.load = func() (config.Config, error) { return config.Parse("weir.yaml", []byte(next)) }
		h.start()
		h.docker.change(func(list map[string]discover.Workload) {
			w := container("web")
			w.Cgroups = []string{"/sys/fs/cgroup/web"}
			list[w.Key] = w
		})
		h.expect("egress only", "eth0 ingress", "")
		next = bothWays
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		seconds(2)
		h.expect("both", "eth0 ingress", "0 host weight 1\n1 web weight 1: vethweb")
		next = "links: [{device: eth0, egress: 20mbit}]"
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		seconds(2)
		h.expect("given back", "eth0 ingress", "")
		if n := h.kernel.OpenBackends("eth0 ingress"); n != 0 {
			t.Errorf("%d backends are open", n)
		}
	})
}
