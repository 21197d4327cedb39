// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/goldentest"
)

// reserved runs weir against an agent with one workload that has a reservation and
// one that has none.
func reserved(t *testing.T) func(args ...string) (code int, out, errs string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	stop, err := serveAgent(socket, apitest.New(apitest.Reserved("cam", 10), apitest.Workload("web", 1, 0, 0, 50)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		a := &app{stdin: os.Stdin, stdout: &out, stderr: &errs}
		code := a.run(t.Context(), append([]string{"--socket", socket}, args...))
		return code, out.String(), errs.String()
	}
}

func TestControlCommand(t *testing.T) {
	run := reserved(t)
	for _, tt := range []struct {
		args string
		code int
		want string // of the output, or of the error
	}{
		{"control cam", 0, "  state       settled: within 0.5 % of the target\n"},
		{"control web", 0, "web has no reservation in force; set one by weir set web --reserve 10mbit\n"},
		{"control nobody", 6, `no workload is called "nobody"`},
		{"control cam --flows", 0, "cam: payload of each connection over 1.0 s\n\nPROTOCOL  LOCAL           REMOTE         QUEUE         SENT  RECEIVED  SENT AGAIN\ntcp       10.0.0.2:40000  192.0.2.1:443  -      9.99 Mbit/s         -           -\n"},
		{"control web --flows", 5, "no reservation in force"},
		{"control cam --flows --freeze", 2, "--flows only looks"},
		{"control cam --freeze", 0, "  state       frozen: frozen by weir control --freeze\n"},
		{"control cam --unfreeze", 0, "  state       settled"},
		{"control cam --freeze --unfreeze", 2, "exclude each other"},
		{"control cam --gains kc=0.125,ti=0.146,td=1", 0, "Kc 0.125, Ti 0.146 s, Td 1 s"},
		{"control cam --gains kc=1", 2, `--gains "0": not a gain`},
		{"control cam --gains fast", 2, "write kc=0.125,ti=0.146,td=1"},
		{"control web --freeze", 5, "no reservation in force"},
		{"tune web", 5, "no reservation in force"},
		{"tune cam", 0, "suggested        Kc 0.11, Ti 0.25 s, Td 0 s\n  applied          no; --apply does, or weir control cam --gains kc=0.11,ti=0.25,td=0"},
		{"tune cam --apply", 0, "applied          yes; weir control cam --default-gains takes them back"},
		{"set cam --reserve 10mbps", 2, "tc reads mbps as megabytes"},
		{"set cam --queue video", 2, "--queue video names a queue and says nothing of it"},
		{"set cam --direction ingress --min 1mbit", 2, "--direction is of --reserve"},
		{"set cam --reserve 5mbit --direction sideways", 2, "write egress (upload) or ingress (download)"},
	} {
		code, out, errs := run(strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(out+errs, tt.want) {
			t.Errorf("weir %s: %d\n%s%swant %d, %s", tt.args, code, out, errs, tt.code, tt.want)
		}
	}
}

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
		c := (&app{}).setCommand()
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
