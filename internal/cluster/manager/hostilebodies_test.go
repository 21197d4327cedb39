// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/manager/planning"
	"weir/internal/cluster/node/membership"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
	"weir/internal/test/boundtest/strangertest"
)

// program is the environment variable with the path of weir, to attack it instead of a process
// of this test.
const program = "WEIR_PROGRAM"

// childDir is the environment variable by which this test runs a manager.
const childDir = "WEIR_TEST_MANAGER"

// TestMain runs the manager that TestHostileBodies attacks where its process is asked for, and
// the tests elsewhere.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := serveChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveChild is a manager until the test that has started it has gone.
func serveChild(dir string) error {
	m, err := New(Options{Dir: dir, Listen: os.Getenv(childDir + "_LISTEN"), BusListen: "127.0.0.1:0", Registry: wire.OwnRegistry, Automatic: planning.DefaultAutomatic(), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := m.Listen(ctx); err != nil {
		cancel()
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	return m.Run(ctx)
}

// victim is a manager in a process of its own.
type victim struct {
	pid     int
	address string
	token   string
	log     bytes.Buffer
}

func startVictim(t *testing.T) *victim {
	t.Helper()
	v := &victim{}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v.address = free.Addr().String()
	free.Close()
	dir := filepath.Join(t.TempDir(), "manager")
	token, err := Init(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	v.token = token.String()
	cmd := exec.Command(os.Args[0])
	if weir := os.Getenv(program); weir != "" {
		cmd = exec.Command(weir, "manager", "serve", "--state-dir", dir, "--listen", v.address, "--bus-listen", "127.0.0.1:0", "--socket", filepath.Join(t.TempDir(), "m.sock"))
	}
	cmd.Env = append(os.Environ(), childDir+"="+dir, childDir+"_LISTEN="+v.address)
	cmd.Stderr, cmd.Stdout = &v.log, &v.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v.pid = cmd.Process.Pid
	t.Cleanup(func() { stdin.Close(); _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	for range 300 {
		if conn, err := net.Dial("tcp", v.address); err == nil {
			conn.Close()
			return v
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("no manager: %s", v.log.String())
	return nil
}

// body draws what a route of the manager's reads, around a hostile part.
func body(r *rand.Rand, long string) string {
	switch r.IntN(5) {
	case 0:
		return brackets(len(long))
	case 1:
		return `{"node":"a","id":"p","container":"c","min_bps":1,"refusal":"","change":{"queues":` + long + `}}`
	case 2:
		return `{"token":"x","secret":"y","node":` + long + `,"request":"AA=="}`
	case 3:
		return `{"token":"` + strings.ReplaceAll(long, `"`, "x") + `","secret":"y","node":"n","request":"AA=="}`
	}
	return `{"sealed":"` + strings.Repeat("W1tb", len(long)/4) + `"}`
}

// TestHostileBodies: a stranger sends 10,000 hostile bodies to every route of the manager's
// port for nodes. The manager's memory stays bounded, and a member is served meanwhile.
func TestHostileBodies(t *testing.T) {
	v := startVictim(t)
	id, err := membership.Enroll(t.Context(), membership.Options{Dir: t.TempDir(), Name: "a", Manager: v.address, Token: v.token, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("%v: %s", err, v.log.String())
	}
	member := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: pki.NewCredentials(id, time.Now).Client(pki.ManagerName)}}
	info := func() error {
		resp, err := member.Get("https://" + v.address + "/v1/info")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		return err
	}
	strangertest.Attack(t, strangertest.Port{Address: v.address, Pid: v.pid, Bodies: 10_000, Member: info, Body: body,
		Paths: []string{"/v1/join", "/v1/renew", "/v1/places", "/v1/grants", "/v1/members", "/v1/info", imagesPath, imagesPath + "weir-move/blobs/uploads/"}})
	if lines := strings.Count(v.log.String(), "\n"); lines > 100 {
		t.Errorf("%d lines of the log: %.3000s", lines, v.log.String())
	}
}
