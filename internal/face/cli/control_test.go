// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/api/apitest"
	"weir/internal/face/cli/frame"
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
		a := &frame.App{Streams: frame.Streams{Stdout: &out, Stderr: &errs}, Stdin: os.Stdin}
		code := run(t.Context(), a, append([]string{"--socket", socket}, args...))
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
