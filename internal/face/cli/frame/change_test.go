// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"path/filepath"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/test/goldentest"
)

func TestRenderChange(t *testing.T) {
	const overlap = `queues.b "{udp: 5-20}": {udp: 1-10} in queue a takes some of its packets before; write ranges that do not overlap, if that is not meant`
	demo := apitest.Demo()
	changed := apitest.Demo()[1]
	changed.Warnings = []string{overlap}
	for name, text := range map[string]string{
		"change-nothing": RenderChange(api.ChangeResult{DryRun: true}) + RenderChange(api.ChangeResult{Workload: &demo[1]}),
		"change-stored": RenderChange(api.ChangeResult{Workload: &demo[1], Stored: map[string]string{"weight": "3", "queues": "[{}]"}}) +
			RenderChange(api.ChangeResult{DryRun: true, Group: &api.Group{Name: "office"}, Dropped: map[string]string{"max": "10mbit"},
				Changes: []api.Edit{{What: "eth0: group office: max 10 Mbit/s -> none", Why: "asked by weir group set"}}}),
		"change-not-held": RenderChange(api.ChangeResult{Group: &api.Group{Name: "office"}, NotHeld: map[string]string{"max": "40mbit"}}) +
			RenderChange(api.ChangeResult{Workload: &demo[1], NotHeld: map[string]string{"group": "office"},
				Changes: []api.Edit{{What: "eth0: web: weight 1 -> 3", Why: "asked by weir set"}}}),
		"change-effects": RenderChange(api.ChangeResult{DryRun: true, Workload: &demo[1],
			Changes: []api.Edit{{What: "eth0: web: min none -> 40 Mbit/s", Why: "asked by weir set"}},
			Effects: []api.Effect{
				{Name: "backup", Device: "eth0", Direction: "egress", NowBeforeBps: 2e6, NowAfterBps: 2e6, BusyBeforeBps: 20e6, BusyAfterBps: 15e6},
				{Name: "office", Group: true, Device: "eth0", Direction: "ingress", NowBeforeBps: 60e6, NowAfterBps: 45e6, BusyBeforeBps: 60e6, BusyAfterBps: 45e6},
				{Name: "web", Device: "eth0", Direction: "egress", BusyBeforeBps: 20e6, BusyAfterBps: 40e6}}}) +
			RenderChange(api.ChangeResult{DryRun: true, Workload: &demo[1], Changes: []api.Edit{{What: "eth0: web: dscp none -> ef", Why: "asked by weir set"}}}),
		"change-warning": RenderChange(api.ChangeResult{Changes: []api.Edit{{What: "eth0: web: ...", Why: "asked by weir set"}}, Workload: &changed}),
	} {
		t.Run(name, func(t *testing.T) { goldentest.Check(t, filepath.Join("testdata", name+".golden"), text) })
	}
}
