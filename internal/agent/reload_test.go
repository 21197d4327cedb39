// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"weir/internal/config"
)

func TestReload(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit}, {device: eth1, egress: 10mbit}]", func(t *testing.T, h *host) {
		var next string
		h.load = func() (config.Config, error) { return config.Parse("weir.yaml", []byte(next)) }
		h.start()
		h.run("a")
		before := h.state("eth0")
		next = "links:\n  - {device: eth0, egress: 50mbps}\n    egres: 1\n"
		if err := h.Reload(t.Context(), "test"); err == nil {
			t.Error("bad file accepted")
		}
		next = "group: x\n"
		if err := h.Reload(t.Context(), "test"); err == nil || !strings.Contains(err.Error(), "no link") {
			t.Errorf("file without links: %v", err)
		}
		h.expect("the old one in force", "eth0", before)
		if s, _ := h.Status(t.Context()); !strings.Contains(s.ConfigError, "weir.yaml") {
			t.Errorf("status says %q", s.ConfigError)
		}
		next = `
links: [{device: eth0, egress: 50mbit}]
workloads: {a: {min: 20%}}
attach: [{name: vm, device: tap0}]
socket: /elsewhere
`
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		h.expect("the new one in force", "eth0", "0 host weight 1\n1 a weight 1 min 10 Mbit/s: vetha\n2 vm weight 1: veth-vm")
		h.expect("given back", "eth1", "")
		s, _ := h.Status(t.Context())
		if s.ConfigError != "" || len(s.Links) != 1 || s.Links[0].CapacityBps != 50e6 || h.kernel.OpenBackends("eth1") != 0 {
			t.Errorf("status %+v", s)
		}
		if !strings.Contains(h.log.String(), "settings=socket") {
			t.Error("the log does not say what needs a restart")
		}
		next = "links: [{device: eth1, egress: 10mbit}]\n"
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		seconds(2)
		h.expect("taken over", "eth1", "0 host weight 1\n1 a weight 1: vetha")
	})
}
