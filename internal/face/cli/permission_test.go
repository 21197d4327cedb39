// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"weir/internal/api/apitest"
	"weir/internal/face/cli/frame"
	"weir/internal/face/server"
)

// viewGroup is a group that every Debian has; its members look in these tests.
const viewGroup = "daemon"

// nobody is a user without rights.
const nobody = 65534

// bed is a server of a fake agent, and a weir, that other users can reach.
type bed struct {
	t         *testing.T
	dir, weir string
	socket    string
}

func newBed(t *testing.T) bed {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	// t.TempDir is closed to others; what they need is not.
	dir, err := os.MkdirTemp("", "weir-outsider-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := bed{t: t, dir: dir, weir: filepath.Join(dir, "weir"), socket: filepath.Join(dir, "weir.sock")}
	coverage := filepath.Join(dir, "coverage") // where a test run with -cover has its children write
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(coverage, 0o700), os.Chown(coverage, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	copySelf(t, b.weir)
	s := server.New(apitest.New(apitest.Demo()...), server.Options{Socket: b.socket, Group: "weir", ViewGroup: viewGroup,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

// as runs weir as the user nobody in further groups.
func (b bed) as(groups []uint32, args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	cmd := exec.Command(b.weir, args...)
	cmd.Env = append(os.Environ(), "WEIR_SOCKET="+b.socket, "GOCOVERDIR="+filepath.Join(b.dir, "coverage"))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: groups}}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the code is looked at
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestOutsiderIsRefusedClearly runs weir as a user whom neither socket admits.
func TestOutsiderIsRefusedClearly(t *testing.T) {
	b := newBed(t)
	for _, args := range [][]string{{"status"}, {"set", "web", "--weight", "2"}, {"top"}, {"cleanup"}} {
		code, _, line := b.as(nil, args...)
		if code != frame.ExitNotPermitted {
			t.Errorf("%v: exit code %d, want %d", args, code, frame.ExitNotPermitted)
		}
		if !strings.HasPrefix(line, "weir: permission denied on "+b.socket+": ") || !strings.Contains(line, "usermod -aG weir nobody") ||
			strings.Count(line, "\n") != 1 {
			t.Errorf("%v: %q", args, line)
		}
	}
}

// TestViewerLooksAndChangesNothing runs weir as a user whom only the socket for
// looking admits: the same commands work as far as they look.
func TestViewerLooksAndChangesNothing(t *testing.T) {
	b := newBed(t)
	g, err := user.LookupGroup(viewGroup)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.ParseUint(g.Gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	groups := []uint32{uint32(gid)}
	for _, args := range [][]string{{"status"}, {"get"}, {"get", "web"}, {"explain", "web"}, {"top", "-n", "1"}} {
		if code, out, line := b.as(groups, args...); code != frame.ExitOK || out == "" {
			t.Errorf("%v: exit code %d, %q", args, code, line)
		}
	}
	for _, args := range [][]string{{"set", "web", "--weight", "2"}, {"set", "web", "--weight", "2", "--dry-run"}, {"detach", "cam"},
		{"group", "set", "a", "--max", "1mbit"}, {"attach", "x", "--netns", "x"}} {
		code, _, line := b.as(groups, args...)
		if code != frame.ExitNotPermitted {
			t.Errorf("%v: exit code %d, want %d", args, code, frame.ExitNotPermitted)
		}
		if !strings.HasPrefix(line, `weir: role "view": only root and group weir may change`) || !strings.Contains(line, "ask a member of group weir") || strings.Count(line, "\n") != 1 {
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
