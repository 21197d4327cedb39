// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/core/event"
	"weir/internal/face/cli/frame"
	"weir/internal/host/doctor"
)

// TestHealthAgrees: of each kind of problem weir status, its JSON, /metrics and weir doctor say the
// same with the remedy, and exit codes are 1 for errors only.
func TestHealthAgrees(t *testing.T) {
	agent := apitest.New(apitest.Demo()...)
	socket := filepath.Join(t.TempDir(), "s")
	stop, err := serveAgent(socket, agent)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	weir := func(args ...string) (int, string) {
		var out bytes.Buffer
		a := &frame.App{Streams: frame.Streams{Stdout: &out, Stderr: &out}, Stdin: os.Stdin}
		return run(t.Context(), a, append([]string{"--socket", socket}, args...)), out.String()
	}
	cases := []event.Kind{{}} // all is well
	for _, k := range event.Kinds {
		if k.Severity != event.Notice {
			cases = append(cases, k)
		}
	}
	for _, k := range cases {
		code, metric := 0, "weir_problems{kind="
		agent.Problems = nil
		if k.Name != "" {
			agent.Problems = []event.Fault{{Kind: k.Name, Severity: k.Severity, Subject: event.Subject{Type: event.Link, Name: "x"}, Count: 3, Text: "x is wrong", Remedy: "mend x"}}
			metric = fmt.Sprintf("weir_problems{kind=%q,severity=%q} 3", k.Name, k.Severity)
		}
		if k.Severity == event.Error {
			code = 1
		}
		if got, text := weir("status"); got != 0 { // a probe that asks for an answer must not end the agent
			t.Errorf("%s: status ends with %d\n%s", k.Name, got, text)
		}
		got, text := weir("status", "--check")
		if well := strings.HasPrefix(text, "health   all is well\n"); got != code || well != (k.Name == "") || !well && !strings.HasPrefix(text, "health   1 problem: x is wrong; mend x\n") {
			t.Errorf("%s: status ends with %d\n%s", k.Name, got, text)
		}
		var status api.Status
		if got, text = weir("status", "--check", "-o", "json"); got != code || json.Unmarshal([]byte(text), &status) != nil || len(status.Problems) != len(agent.Problems) {
			t.Errorf("%s: status -o json ends with %d\n%s", k.Name, got, text)
		}
		sum := 0
		for line := range strings.Lines(scrape(t, socket)) {
			if strings.HasPrefix(line, "weir_problems{") && !strings.HasSuffix(line, " 0\n") {
				sum++
				if !strings.HasPrefix(line, metric) {
					t.Errorf("%s: metrics have %s", k.Name, line)
				}
			}
		}
		if sum != len(agent.Problems) {
			t.Errorf("%s: %d metrics, want %d", k.Name, sum, len(agent.Problems))
		}
		var host doctor.Host
		host.Agent.Value, host.Agent.Err = api.NewClient(socket).Status(t.Context())
		var fails int
		for _, f := range doctor.Examine(host) {
			if f.Check == "agent" && f.Seen == "x is wrong" && f.Remedy == "mend x" {
				fails = map[doctor.Level]int{doctor.Fails: 1, doctor.Warning: 2}[f.Level]
			}
		}
		if want := map[string]int{event.Error: 1, event.Warning: 2}[k.Severity]; fails != want {
			t.Errorf("%s: doctor's level is %d, want %d", k.Name, fails, want)
		}
	}
}

// scrape returns the metrics as the socket has them.
func scrape(t *testing.T, socket string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	resp, err := client.Get("http://weir/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
