// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/face/cli/frame"
	"weir/internal/test/goldentest"
)

func TestControlRenderings(t *testing.T) {
	fake := apitest.New(apitest.Reserved("cam", 10))
	control, err := fake.Control(t.Context(), "cam")
	if err != nil {
		t.Fatal(err)
	}
	unmeasured := control
	unmeasured.Loops = []api.ControlLoop{control.Loops[0]}
	loop := &unmeasured.Loops[0]
	loop.GoodputBps, loop.ErrorBps, loop.Queue, loop.Direction, loop.Limiter = nil, nil, "video", "ingress", "off"
	loop.Mode, loop.Why, loop.Warning, loop.SentBytes = "unmeasured", "nothing measures its goodput", "slow: half of an error is left after 9 s", 0
	tuning, err := fake.Tune(t.Context(), "cam", api.TuneRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"control":            renderControl(control),
		"control-unmeasured": renderControl(unmeasured),
		"tune":               renderTuning(tuning),
	} {
		t.Run(name, func(t *testing.T) { goldentest.Check(t, filepath.Join("testdata", name+".golden"), text) })
	}
}

// TestReserveFlags: --direction and --queue say what --reserve is about.
func TestReserveFlags(t *testing.T) {
	for _, tt := range []struct {
		args  string
		check func(api.PolicyChange) bool
	}{
		{"--reserve 5mbit", func(c api.PolicyChange) bool { return c.Texts()["reserve"] == "5mbit" && c.ReserveQueue == "" }},
		{"--reserve 5mbit --queue video", func(c api.PolicyChange) bool {
			return c.Texts()["reserve"] == "5mbit" && c.ReserveQueue == "video" && !c.Gives("queues")
		}},
		{"--reserve 5mbit --direction ingress", func(c api.PolicyChange) bool { return !c.Gives("reserve") && c.Texts()["ingress.reserve"] == "5mbit" }},
		{"--reserve none --direction ingress --queue a", func(c api.PolicyChange) bool {
			return c.Texts()["ingress.reserve"] == "none" && c.Ingress.ReserveQueue == "a" && c.ReserveQueue == ""
		}},
		{"--reserve 5mbit --direction egress", func(c api.PolicyChange) bool { return c.Texts()["reserve"] == "5mbit" }},
	} {
		var flags policyFlags
		c := Commands{&frame.App{}}.Set()
		c.ResetFlags()
		flags.register(c)
		if err := c.ParseFlags(strings.Fields(tt.args)); err != nil {
			t.Fatal(err)
		}
		got, err := flags.asked()
		if err != nil || !tt.check(got) {
			t.Errorf("%s: %+v, %v", tt.args, got, err)
		}
	}
}
