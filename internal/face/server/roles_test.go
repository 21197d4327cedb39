// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/face/server/page/pagetest"
)

// viewGroup is a group that every Debian has; its members look in these tests.
const viewGroup = "daemon"

// over makes an HTTP client of a unix socket.
func over(t *testing.T, socket string) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

// operations returns all routes that the document has.
func operations(t *testing.T, client *http.Client) []pagetest.Operation {
	t.Helper()
	resp, err := client.Get("http://weir/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	document, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return pagetest.Operations(t, document)
}

// ask makes one request, reads the beginning of its answer, and lets it go.
func ask(t *testing.T, client *http.Client, method, path string) (int, api.ProblemDetails) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var body io.Reader
	if method != http.MethodGet {
		body = strings.NewReader(`{"weight":7}`)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://weir"+strings.ReplaceAll(path, "{name}", "web"), body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	var p api.ProblemDetails
	if resp.StatusCode >= 300 {
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
			t.Errorf("%s %s: status %d and %v", method, path, resp.StatusCode, err)
		}
	}
	return resp.StatusCode, p
}

// TestViewersChangeNothing walks all routes on the socket for those who may only
// look: what changes something is refused before it reaches the agent, a dry run too.
func TestViewersChangeNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a socket to a group")
	}
	agent := demo()
	s, full := startWith(t, agent, Options{Group: "weir", ViewGroup: viewGroup})
	before, err := full.Workloads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := over(t, api.ViewSocket(s.opts.Socket))
	changing := 0
	for _, op := range operations(t, client) {
		paths := []string{op.Path}
		switch {
		case op.Role == "view" && op.Method == http.MethodGet:
			if op.Path == "/v1/workloads/{name}/classify" {
				paths = []string{op.Path + "?proto=udp&dst=10.0.0.2&dport=5060"}
			}
		case op.Role == "change" && op.Method != http.MethodGet:
			paths = append(paths, op.Path+"?dry_run=true")
			changing++
		default:
			t.Errorf("%s %s needs role %q", op.Method, op.Path, op.Role)
		}
		for _, path := range paths {
			status, p := ask(t, client, op.Method, path)
			if op.Role == "view" {
				if status == http.StatusForbidden {
					t.Errorf("%s %s: %d %+v", op.Method, path, status, p)
				}
				continue
			}
			if status != http.StatusForbidden || p.Field != "role" || p.Value != "view" || !strings.Contains(p.Remedy, "group weir") {
				t.Errorf("%s %s: %d %+v, want 403 with field, value and remedy", op.Method, path, status, p)
			}
		}
	}
	if changing < 7 {
		t.Errorf("only %d routes change something", changing)
	}
	after, err := full.Workloads(t.Context())
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("a viewer changed something: %v\n%+v\n%+v", err, before, after)
	}
}

// TestRoutesWithoutRoleAreForChangers: a route that was registered without a role refuses
// callers with the role view, whatever its method.
func TestRoutesWithoutRoleAreForChangers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a socket to a group")
	}
	s, _ := startWith(t, demo(), Options{Group: "weir", ViewGroup: viewGroup})
	s.rest.Mux.HandleFunc("GET /secret", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") })
	s.rest.Mux.HandleFunc("/any", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") })
	client := over(t, api.ViewSocket(s.opts.Socket))
	for _, r := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/secret", 403}, {"HEAD", "/secret", 403}, {"GET", "/any", 403}, {"POST", "/any", 403},
		{"GET", "/v1/../secret", 403}, {"PATCH", "/v1/x/../workloads/web/policy", 403},
		{"PUT", "/v1/workloads/web", 405}, {"POST", "/nothing", 404},
	} {
		req, err := http.NewRequestWithContext(t.Context(), r.method, "http://weir"+r.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != r.status {
			t.Errorf("%s %s: %d, want %d", r.method, r.path, resp.StatusCode, r.status)
		}
	}
}

// TestViewSocket: the group can open it, others cannot, and it goes with the server.
func TestViewSocket(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a socket to a group")
	}
	s := New(demo(), Options{Socket: t.TempDir() + "/weir.sock", ViewGroup: viewGroup, Log: quiet()})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	stop := serve(t, s)
	path := api.ViewSocket(s.opts.Socket)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); info.Mode().Perm() != 0o660 || st.Gid == 0 {
		t.Errorf("mode %o, group %d; want 660 and the group's", info.Mode().Perm(), st.Gid)
	}
	stop()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the view socket is still there: %v", err)
	}
}

// TestViewersLeaveStreamsToOthers: viewers that follow the stream as often as they
// can do not keep a member of the other group from following it.
func TestViewersLeaveStreamsToOthers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a socket to a group")
	}
	s, full := startWith(t, demo(), Options{Group: "weir", ViewGroup: viewGroup})
	client := over(t, api.ViewSocket(s.opts.Socket))
	full503 := 0
	for range userStreams + 1 {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://weir/v1/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		if resp.StatusCode == http.StatusServiceUnavailable {
			full503++
		}
	}
	if full503 != 1 {
		t.Errorf("%d of %d streams were refused, want the last", full503, userStreams+1)
	}
	seen := io.EOF
	if err := full.Stream(t.Context(), func(api.Sample) error { return seen }); !errors.Is(err, seen) {
		t.Errorf("a member's stream: %v", err)
	}
}
