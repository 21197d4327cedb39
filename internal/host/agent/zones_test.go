// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
)

const home = `
links:
  - device: eth0
    egress: 950mbit
    zones:
      wan: {egress: 100mbit}
      lan: {prefixes: [connected, private]}
`

// A zone with a capacity is a link of its own, and has a class on the device's. Policies count in
// the default zone, but for what they say of another.
func TestZones(t *testing.T) {
	inBubble(t, home+`
workloads:
  web: {weight: 3, min: 20%, max: 50mbit}
  nas: {min: 10mbit, zones: {lan: {max: 200mbit, min: 100mbit, weight: 5}}}
`, func(t *testing.T, h *host) {
		h.kernel.AddDevice("eth0 wan")
		h.kernel.AddDevice("eth0 net")
		h.start()
		h.run("web")
		h.run("nas")
		h.expect("the device", "eth0", `
			0 host weight 1
			1 zone wan weight 1 min 100 Mbit/s
			2 web weight 3: vethweb
			3 nas weight 5 min 100 Mbit/s max 200 Mbit/s: vethnas`)
		h.expect("the zone", "eth0 wan", `
			0 host weight 1
			2 web weight 3 min 20 Mbit/s max 50 Mbit/s: vethweb
			3 nas weight 1 min 10 Mbit/s: vethnas`)
		status, err := h.Status(t.Context())
		if err != nil || len(status.Links) != 2 {
			t.Fatalf("%+v, %v", status, err)
		}
		for i, want := range []struct {
			device             string
			capacity, reserved uint64
			workloads          int
		}{{"eth0", 950e6, 200e6, 2}, {"eth0 wan", 100e6, 30e6, 2}} {
			if l := status.Links[i]; l.Device != want.device || l.CapacityBps != want.capacity || l.ReservedBps != want.reserved || l.Workloads != want.workloads {
				t.Errorf("%+v, want %+v", l, want)
			}
		}
		if w := h.workload("nas"); len(w.Links) != 2 || w.Links[1].Device != "eth0 wan" || w.Links[1].MinBps != 10e6 {
			t.Errorf("links %+v", w.Links)
		}
	})
}

// Each zone admits for itself: what other zones have of the device is reserved there.
func TestZonesAdmission(t *testing.T) {
	inBubble(t, home, func(t *testing.T, h *host) {
		h.kernel.AddDevice("eth0 wan")
		h.kernel.AddDevice("eth0 net")
		h.start()
		h.run("web")
		for change, want := range map[string]string{
			"min: 120mbit":                   "link eth0 wan has no room for it: asked 120 Mbit/s, reserved 0 bit/s of 100 Mbit/s, free 100 Mbit/s",
			"zones: lan min 900mbit":         "link eth0 has no room for its min: asked 900 Mbit/s, reserved 100 Mbit/s of 950 Mbit/s, free 850 Mbit/s",
			"zones: lna min 1mbit":           "no link has such a zone; did you mean \"lan\"?",
			"zones: lan min 9mbit max 8mbit": "9 Mbit/s is above the max, 8 Mbit/s",
		} {
			field, value, _ := strings.Cut(change, ": ")
			_, err := h.Set(t.Context(), "web", api.PolicyChange{Change: policy.MustChange(field, value)}, false)
			if !refusal.Is(err, refusal.Invalid) && !refusal.Is(err, refusal.NoRoom) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), field) {
				t.Errorf("%s: %v, want %s", change, err, want)
			}
		}
		h.expect("nothing has changed", "eth0 wan", "0 host weight 1\n2 web weight 1: vethweb")
		if _, err := h.Set(t.Context(), "web", api.PolicyChange{Change: policy.MustChange("zones", "lan min 850mbit")}, false); err != nil {
			t.Error(err)
		}
		h.expect("as much as there is", "eth0", "0 host weight 1\n1 zone wan weight 1 min 100 Mbit/s\n2 web weight 1 min 850 Mbit/s: vethweb")
	})
}

// Zones that come, change and go with the file; one that is wrong changes nothing.
func TestZonesReload(t *testing.T) {
	inBubble(t, home, func(t *testing.T, h *host) {
		h.kernel.AddDevice("eth0 wan")
		h.kernel.AddDevice("eth0 net")
		var next string
		h.load = func() (config.Config, error) { return config.Parse("weir.yaml", []byte(next)) }
		h.start()
		h.run("web")
		before := h.state("eth0 wan")
		for _, wrong := range []struct{ text, want string }{
			{strings.Replace(home, "100mbit", "960mbit", 1), `links[0].zones.wan.egress: "960mbit": zones have 960mbit of the device's 950mbit with it; write 950mbit or less`},
			{home + "workloads: {web: {zones: {lna: {max: 1mbit}}}}", `workloads.web.zones: "lna": no link has such a zone; did you mean "lan"?`},
		} {
			next = wrong.text
			if err := h.Reload(t.Context(), "test"); err == nil || !strings.Contains(err.Error(), wrong.want) {
				t.Errorf("%v, want %s", err, wrong.want)
			}
		}
		h.expect("nothing has changed", "eth0 wan", before)
		reload := func(text string) {
			t.Helper()
			next = text
			if err := h.Reload(t.Context(), "test"); err != nil {
				t.Fatal(err)
			}
			seconds(2)
		}
		reload(strings.Replace(home, "private]", "private, 192.0.2.0/24]", 1))
		h.expect("other prefixes", "eth0 wan", before)
		if n := h.kernel.OpenBackends("eth0 wan"); n != 1 {
			t.Errorf("%d backends are open", n)
		}
		reload(strings.Replace(home, "wan:", "net:", 1))
		h.expect("another name", "eth0 net", before)
		h.expect("given back", "eth0 wan", "")
		reload("links: [{device: eth0, egress: 950mbit}]")
		h.expect("no zones", "eth0", "0 host weight 1\n2 web weight 1: vethweb")
		h.expect("given back", "eth0 net", "")
	})
}
