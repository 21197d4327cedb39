// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/cluster/manager/planning"
	"weir/internal/cluster/node/membership"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
)

// The bars of TestHostileBodies.
const (
	hostileBodies = 10_000
	mostGrowth    = 64 << 20 // bytes of resident memory
	memberWaits   = time.Second
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

// resident returns the resident memory of a process in bytes.
func resident(t *testing.T, pid int) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Error(err)
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "VmRSS:" {
			kb, _ := strconv.ParseInt(fields[1], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// hostileBody draws a body: nested, repeated, long, or of no JSON at all.
func hostileBody(r *rand.Rand) string {
	n := 1 << r.IntN(17)
	unit := []string{"[", `{"a":`, `[{"a":[`, "[],", "0,", `"\u0000",`, "1e9999999,", strings.Repeat("9", 400) + ",", "{},", "\x00", "- ", "&a [*a,", `{"` + strings.Repeat("k", 1000) + `":1},`}[r.IntN(13)]
	long := strings.Repeat(unit, max(1, n/len(unit)))
	switch r.IntN(6) {
	case 0:
		return long
	case 1:
		return brackets(n)
	case 2:
		return `{"node":"a","id":"p","container":"c","min_bps":1,"refusal":"","change":{"queues":` + long + `}}`
	case 3:
		return `{"token":"x","secret":"y","node":` + long + `,"request":"AA=="}`
	case 4:
		return `{"token":"` + strings.ReplaceAll(long, `"`, "x") + `","secret":"y","node":"n","request":"AA=="}`
	}
	return `{"sealed":"` + strings.Repeat("W1tb", n/4) + `"}`
}

// attack sends one request of a stranger's, and lets some of them stand half sent.
func attack(ctx context.Context, r *rand.Rand, address string, client *http.Client, slow *[]net.Conn) {
	paths := []string{"/v1/join", "/v1/renew", "/v1/places", "/v1/grants", "/v1/members", "/v1/info", "/openapi.json", imagesPath, imagesPath + "weir-move/blobs/uploads/", "/v1/" + strings.Repeat("x", r.IntN(20<<10))}
	method := []string{"POST", "POST", "POST", "PUT", "PATCH", "GET", "DELETE"}[r.IntN(7)]
	path, body := paths[r.IntN(len(paths))], hostileBody(r)
	if r.IntN(20) == 0 { // it begins, and stands still
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			return
		}
		if r.IntN(2) == 0 {
			secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = fmt.Fprintf(secure, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%.100s", method, path, 1<<r.IntN(40), body)
			conn = secure
		}
		*slow = append(*slow, conn)
		return
	}
	q, err := http.NewRequestWithContext(ctx, method, "https://"+address+path, strings.NewReader(body))
	if err != nil {
		return
	}
	q.Header.Set("Content-Type", []string{"application/json", "application/json", "application/vnd.x+json", "text/yaml", ""}[r.IntN(5)])
	if r.IntN(10) == 0 {
		q.Header.Set("X-Long", strings.Repeat("h", r.IntN(40<<10)))
	}
	if r.IntN(3) == 0 {
		q.ContentLength = -1
	}
	if resp, err := client.Do(q); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
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
	info := func() (time.Duration, error) {
		begun := time.Now()
		resp, err := member.Get("https://" + v.address + "/v1/info")
		if err != nil {
			return time.Since(begun), err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		return time.Since(begun), err
	}
	for range 20 {
		if _, err := info(); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	before := resident(t, v.pid)
	ctx, cancel := context.WithCancel(t.Context())
	var most atomic.Int64
	var watching, attacking sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			most.Store(max(most.Load(), resident(t, v.pid)))
			time.Sleep(10 * time.Millisecond)
		}
	})
	var waits []time.Duration
	watching.Go(func() {
		for ctx.Err() == nil {
			wait, err := info()
			if err != nil {
				t.Errorf("a member: %v", err)
			}
			waits = append(waits, wait)
			time.Sleep(50 * time.Millisecond)
		}
	})
	begun := time.Now()
	const attackers = 8
	for i := range uint64(attackers) {
		attacking.Go(func() {
			r := rand.New(rand.NewPCG(seed, i))
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			var slow []net.Conn
			for range hostileBodies / attackers {
				attack(ctx, r, v.address, client, &slow)
			}
			for _, conn := range slow {
				conn.Close()
			}
		})
	}
	attacking.Wait()
	took := time.Since(begun)
	cancel()
	watching.Wait()
	slices.Sort(waits)
	late := waits[len(waits)*95/100]
	t.Logf("seed %d: %d bodies in %v; memory %d MB, and %d MB at most; %d requests of a member: %v in the middle, %v of 95 %%, %v at most",
		seed, hostileBodies, took.Round(time.Millisecond), before>>20, most.Load()>>20, len(waits), waits[len(waits)/2], late, waits[len(waits)-1])
	if grown := most.Load() - before; grown > mostGrowth {
		t.Errorf("memory grows by %d MB", grown>>20)
	}
	if late > memberWaits {
		t.Errorf("a member waits for %v", late)
	}
	if lines := strings.Count(v.log.String(), "\n"); lines > 100 {
		t.Errorf("%d lines of the log: %.3000s", lines, v.log.String())
	}
}
