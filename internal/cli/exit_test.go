// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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

func TestAccessRemedy(t *testing.T) {
	for _, tt := range []struct {
		name string
		ac   access
		want string
	}{
		{"not in the group", access{"eve", "weir", []string{"eve"}}, "you are not in group weir; run: sudo usermod -aG weir eve, then log in again"},
		{"since the login", access{"eve", "weir", []string{"eve", "weir"}}, "log in again (or run: newgrp weir)"},
		{"no such group when the agent began", access{"eve", "root", []string{"eve"}}, "sudo groupadd --system weir"},
		{"socket out of sight", access{"eve", "", nil}, "sudo usermod -aG weir eve"},
		{"another group", access{"eve", "netops", nil}, "sudo usermod -aG netops eve"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.ac.remedy(); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q in it", got, tt.want)
			}
		})
	}
}

// TestOutsiderIsRefusedClearly runs weir as a user whom the socket does not admit.
func TestOutsiderIsRefusedClearly(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	// t.TempDir is closed to others; what the outsider needs is not.
	dir, err := os.MkdirTemp("", "weir-outsider-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	stop, err := serveFake(filepath.Join(dir, "weir.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	coverage := filepath.Join(dir, "coverage") // where a test run with -cover has its children write
	if err := errors.Join(os.Mkdir(coverage, 0o700), os.Chown(coverage, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	weir := filepath.Join(dir, "weir")
	copySelf(t, weir)
	for _, args := range [][]string{{"status"}, {"set", "web", "--weight", "2"}, {"top"}, {"cleanup"}} {
		cmd := exec.Command(weir, args...)
		cmd.Env = append(os.Environ(), "WEIR_SOCKET="+filepath.Join(dir, "weir.sock"), "GOCOVERDIR="+coverage)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		_ = cmd.Run() // the code is looked at
		if got := cmd.ProcessState.ExitCode(); got != exitNotPermitted {
			t.Errorf("%v: exit code %d, want %d", args, got, exitNotPermitted)
		}
		line := stderr.String()
		if !strings.HasPrefix(line, "weir: permission denied on "+dir+"/weir.sock: ") || !strings.Contains(line, "usermod -aG weir nobody") || strings.Count(line, "\n") != 1 {
			t.Errorf("%v: %q", args, line)
		}
	}
}

func copySelf(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, from); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
