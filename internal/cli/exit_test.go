// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/dataplane"
	"weir/internal/policy"
)

func TestErrorsAndCodes(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		code int
		line string
	}{
		{"nothing", nil, exitOK, ""},
		{"usage", usagef("--x: wrong"), exitUsage, "--x: wrong"},
		{"a bad rate", &policy.Error{Field: "min", Value: "x", Msg: "no", Remedy: "yes"}, exitUsage, `min "x": no; yes`},
		{"bad input for the agent", &api.Error{Status: 422, Field: "min", Value: "x", Msg: "no", Remedy: "yes"}, exitUsage, `min "x": no; yes`},
		{"a value that is named already", &api.Error{Status: 404, Field: "workload", Value: "web", Msg: `no workload is called "web"`}, exitUnknown, `workload: no workload is called "web"`},
		{"refused", &api.Error{Status: 409, Msg: "full"}, exitRefused, "full"},
		{"agent's fault", &api.Error{Status: 500, Msg: "oops\nagain"}, exitFailed, "oops again"},
		{"wrapped", fmt.Errorf("x: %w", &api.Error{Status: 409, Msg: "full"}), exitRefused, "full"},
		{"no agent", fmt.Errorf("%w at /s", api.ErrNoAgent), exitNoAgent, "no agent at /s; start it with: systemctl start weir (or: weir agent --link eth0 --egress 100mbit)"},
		{"a demanded backend", fmt.Errorf("backend bpf: %w", dataplane.ErrNoSupport), exitNoAgent, "backend bpf: kernel cannot run this backend"},
		{"not root", fmt.Errorf("attach: %w", dataplane.ErrPrivilege), exitNotPermitted, "attach: not permitted"},
		{"a file of root's", fmt.Errorf("open x: %w", os.ErrPermission), exitNotPermitted, "open x: permission denied"},
		{"a bad file", &config.Error{Path: "w.yaml", Problems: []config.Problem{{Line: 1, Column: 2, Field: "links", Msg: "a"}, {Msg: "b"}}}, exitUsage, "w.yaml:1:2: links: a|w.yaml: b"},
		{"interrupted", fmt.Errorf("x: %w", context.Canceled), exitFailed, "interrupted"},
		{"the lab's verdict", labError(1, nil), 1, ""},
		{"the lab's trouble", labError(3, errors.New("no iperf3")), 3, "no iperf3"},
		{"the lab is content", labError(0, nil), exitOK, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := exitCode(tt.err); got != tt.code {
				t.Errorf("code %d, want %d", got, tt.code)
			}
			a := &app{socket: "/s"}
			if got := strings.Join(a.errorLines(tt.err), "|"); got != tt.line {
				t.Errorf("line %q, want %q", got, tt.line)
			}
		})
	}
}
