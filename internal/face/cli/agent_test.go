// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/face/cli/frame"
	"weir/internal/host/dataplane/device/netnstest"
)

// TestAgentFromStartToStop runs the real agent in a network namespace of its
// own, on a device that leads nowhere: it says when it is ready, answers, leaves when
// told to, and takes its socket with it.
func TestAgentFromStartToStop(t *testing.T) {
	dir := t.TempDir()
	socket, notify := filepath.Join(dir, "weir.sock"), filepath.Join(dir, "notify.sock")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	cmd := weirCommand(t, "agent", "--link", "up0=50mbit", "--backend", "tc", "--docker=false", "--log-format", "json",
		"--socket", socket, "--state-dir", filepath.Join(dir, "state"))
	cmd.Args = append([]string{"sh", "-c", `ip link add up0 type veth peer name far0 && ip link set far0 up && ip link set up0 up && exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify)
	netnstest.Alone(t, cmd)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) {
		t.Skipf("no network namespace can be made here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })

	awaitNotice(t, systemd, exited, "READY=1")
	var status api.Status
	printed, err := weirCommand(t, "status", "-o", "json", "--socket", socket).Output()
	if err == nil {
		err = json.Unmarshal(printed, &status)
	}
	if err != nil || len(status.Links) != 1 || status.Links[0].Device != "up0" || status.Links[0].CapacityBps != 50e6 || status.Links[0].Backend != "tc" {
		t.Errorf("status %+v, %v", status, err)
	}
	if out, err := weirCommand(t, "agent", "--link", "up0=50mbit", "--docker=false", "--socket", socket, "--state-dir", dir).CombinedOutput(); exitOf(err) != frame.ExitFailed || !strings.Contains(string(out), "another agent runs here") {
		t.Errorf("second agent: %v, %s", err, out)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitNotice(t, systemd, nil, "STOPPING=1")
	if err := <-exited; err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	for line := range strings.Lines(log.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("log line is no JSON: %s", line)
		}
	}
	if t.Failed() {
		t.Log(log.String())
	}
}

// awaitNotice reads what systemd would until it is told want.
func awaitNotice(t *testing.T, systemd *net.UnixConn, exited <-chan error, want string) {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		buf := make([]byte, 256)
		_ = systemd.SetReadDeadline(time.Now().Add(30 * time.Second))
		n, err := systemd.Read(buf)
		if err != nil {
			got <- err.Error()
			return
		}
		got <- string(buf[:n])
	}()
	select {
	case notice := <-got:
		if notice != want {
			t.Fatalf("systemd was told %q, want %q", notice, want)
		}
	case err := <-exited:
		t.Fatalf("the agent ended before it said %s: %v", want, err)
	}
}

func exitOf(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return frame.ExitOK
}
