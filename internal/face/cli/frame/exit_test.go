// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/invalid"
	"weir/internal/core/refusal"
)

var errOwn = errors.New("none")

func TestErrorsAndCodes(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		code int
		line string
	}{
		{"nothing", nil, ExitOK, ""},
		{"usage", Usagef("--x: wrong"), ExitUsage, "--x: wrong"},
		{"a bad rate", &invalid.Error{Field: "min", Value: "x", Msg: "no", Remedy: "yes"}, ExitUsage, `min "x": no; yes`},
		{"bad input for the agent", &refusal.Error{Kind: refusal.Invalid, Field: "min", Value: "x", Msg: "no", Remedy: "yes"}, ExitUsage, `min "x": no; yes`},
		{"a value that is named already", &refusal.Error{Kind: refusal.Unknown, Field: "workload", Value: "web", Msg: `no workload is called "web"`}, ExitUnknown, `workload: no workload is called "web"`},
		{"refused", &refusal.Error{Kind: refusal.Conflict, Msg: "full"}, ExitRefused, "full"},
		{"agent's fault", &refusal.Error{Kind: refusal.Failed, Msg: "oops\nagain"}, ExitFailed, "oops again"},
		{"wrapped", fmt.Errorf("x: %w", &refusal.Error{Kind: refusal.Conflict, Msg: "full"}), ExitRefused, "full"},
		{"no agent", fmt.Errorf("%w at /s", api.ErrNoAgent), ExitNoAgent, "no agent at /s; start it with: systemctl start weir (or: weir agent --link eth0 --egress 100mbit)"},
		{"an error of a part of the program", fmt.Errorf("backend bpf: %w", errOwn), ExitNoAgent, "backend bpf: none"},
		{"a file of root's", fmt.Errorf("open x: %w", os.ErrPermission), ExitNotPermitted, "open x: permission denied"},
		{"a bad file", &config.Error{Path: "w.yaml", Problems: []config.Mistake{{Line: 1, Column: 2, Field: "links", Msg: "a"}, {Msg: "b"}}}, ExitUsage, "w.yaml:1:2: links: a|w.yaml: b"},
		{"no room", &refusal.Error{Kind: refusal.NoRoom, Field: "min", Value: "9mbit", Msg: "full"}, ExitRefused, `min "9mbit": full`},
		{"not held", &refusal.Error{Kind: refusal.NotHeld, Msg: "no groups"}, ExitRefused, "no groups"},
		{"denied", &refusal.Error{Kind: refusal.Denied, Msg: "only root"}, ExitNotPermitted, "only root"},
		{"too often", &refusal.Error{Kind: refusal.TooMany, Msg: "slowly"}, ExitFailed, "slowly"},
		{"busy", &refusal.Error{Kind: refusal.Busy, Msg: "later"}, ExitFailed, "later"},
		{"a node is silent", &refusal.Error{Kind: refusal.Timeout, Msg: "no answer"}, ExitFailed, "no answer"},
		{"a kind of the future", &refusal.Error{Kind: "of the future", Msg: "what"}, ExitFailed, "what"},
		{"a field that is a flag", &refusal.Error{Kind: refusal.Denied, Field: "cluster.token", Msg: "is missing"}, ExitNotPermitted, "--token: is missing"},
		{"interrupted", fmt.Errorf("x: %w", context.Canceled), ExitFailed, "interrupted"},
		{"the lab's verdict", Exit(1, nil), 1, ""},
		{"the lab's trouble", Exit(3, errors.New("no iperf3")), 3, "no iperf3"},
		{"the lab is content", Exit(0, nil), ExitOK, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &App{Socket: "/s", Codes: map[error]int{errOwn: ExitNoAgent}}
			if got := a.exitCode(tt.err); got != tt.code {
				t.Errorf("code %d, want %d", got, tt.code)
			}
			if got := strings.Join(a.ErrorLines(tt.err), "|"); got != tt.line {
				t.Errorf("line %q, want %q", got, tt.line)
			}
		})
	}
}
