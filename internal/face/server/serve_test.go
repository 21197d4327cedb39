// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/api/rest"
	"weir/internal/base/tlsfile"
	"weir/internal/base/tlsfile/tlstest"
	"weir/internal/core/event"
	"weir/internal/core/refusal"
	"weir/internal/face/server/page"
)

// serve runs s until the test ends and fails the test if it does not stop well.
func serve(t *testing.T, s *Server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func TestSocketIsForRootAndGroup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "weir.sock")
	s := New(demo(), Options{Socket: path, Group: "no-such-group", Log: quiet()})
	if err := s.Listen(); err != nil {
		t.Fatalf("a missing group must not stop the agent: %v", err)
	}
	stop := serve(t, s)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o660 {
		t.Errorf("mode %o, want 660", got)
	}
	stop()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there after Serve: %v", err)
	}
}

func TestSocketGoesToGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a socket to a group")
	}
	path := filepath.Join(t.TempDir(), "weir.sock")
	sock, err := rest.Listen(path, "daemon", "agent", quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if gid := info.Sys().(*syscall.Stat_t).Gid; gid == 0 {
		t.Errorf("socket belongs to group 0, want daemon's")
	}
}

func TestSecondAgentIsRefused(t *testing.T) {
	s, client := startWith(t, demo(), Options{})
	err := New(demo(), Options{Socket: s.opts.Socket, Log: quiet()}).Listen()
	if inUse := new(rest.SocketInUseError); !errors.As(err, &inUse) {
		t.Fatalf("second Listen: %v, want %v", err, &rest.SocketInUseError{Who: "agent"})
	}
	if _, err := client.Status(t.Context()); err != nil {
		t.Errorf("the first agent is disturbed: %v", err)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false) // what SIGKILL leaves behind
	dead.Close()
	client := api.NewClient(path)
	if _, err := client.Status(t.Context()); !errors.Is(err, api.ErrNoAgent) {
		t.Errorf("stale socket: %v, want ErrNoAgent", err)
	}
	s := New(demo(), Options{Socket: path, Log: quiet()})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	if _, err := client.Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoSocketIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := New(demo(), Options{Socket: path, Log: quiet()}).Listen()
	if err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("Listen on a file: %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Errorf("the file was touched: %q", b)
	}
}

// TestAddressesAreWaitedFor: a port that is taken, of metrics or page, is no reason not to serve
// the rest; it is said, and served as soon as it is free.
func TestAddressesAreWaitedFor(t *testing.T) {
	taken := make([]net.Listener, 2)
	for i := range taken {
		var err error
		if taken[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		defer taken[i].Close()
	}
	metrics, site := taken[0].Addr().String(), taken[1].Addr().String()
	s, _ := startWith(t, demo(), Options{Metrics: []string{metrics, "127.0.0.1:0", "192.0.2.1:1"}, Web: page.Config{Listen: []string{site}, Key: t.TempDir() + "/web.key"}})
	lacking := func() (list []string) {
		var seen event.Sight
		s.Look(&seen)
		for _, p := range event.Problems(seen) {
			if p.Remedy == "" || p.Kind != event.NotServed {
				t.Errorf("%+v", p)
			}
			list = append(list, p.Subject.Name)
		}
		return list
	}
	if got := lacking(); !slices.Equal(got, []string{metrics, "192.0.2.1:1", site}) {
		t.Errorf("not served: %q", got)
	}
	if resp, err := http.Get("http://" + s.MetricsAddr() + "/metrics"); err != nil {
		t.Errorf("the second address: %v", err)
	} else {
		resp.Body.Close()
	}
	for _, ln := range taken {
		ln.Close()
	}
	for begin := time.Now(); len(lacking()) > 1; time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > 5*time.Second {
			t.Fatalf("not served after 5 s: %q", lacking())
		}
	}
	if resp, err := http.Get("http://" + site + "/"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the page: %v", err)
	} else {
		resp.Body.Close()
	}
}

func TestTCPServesMetricsOnly(t *testing.T) {
	s, _ := startWith(t, demo(), Options{Metrics: []string{"127.0.0.1:0"}})
	for path, want := range map[string]int{"/metrics": 200, "/v1/status": 404, "/openapi.json": 404} {
		resp, err := http.Get("http://" + s.MetricsAddr() + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s over TCP: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

// TestMetricsStayOffTheNetworkInClear: names of containers and their traffic are not
// sent beyond this machine without TLS, whatever the options say.
func TestMetricsStayOffTheNetworkInClear(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		s, _ := startWith(t, demo(), Options{Metrics: []string{address}})
		var seen event.Sight
		s.Look(&seen)
		if found := seen.Reported[event.NotServed]; len(found) != 1 || !strings.Contains(found[0].Text, "not on the loopback") || s.MetricsAddr() != "" {
			t.Errorf("%s: %v, served at %q", address, found, s.MetricsAddr())
		}
	}
}

// TestMetricsOverTLS scrapes as Prometheus would.
func TestMetricsOverTLS(t *testing.T) {
	ours, other := tlstest.New(t, "ours"), tlstest.New(t, "other")
	s, _ := startWith(t, demo(), Options{Metrics: []string{"0.0.0.0:0"}, MetricsTLS: ours.Issue(t, "agent")})
	_, port, err := net.SplitHostPort(s.MetricsAddr())
	if err != nil {
		t.Fatal(err)
	}
	scrape := func(scheme string, f tlsfile.Files) (string, string, error) {
		cfg, err := f.Client("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}, Timeout: 10 * time.Second}
		resp, err := client.Get(scheme + "://127.0.0.1:" + port + "/metrics")
		if err != nil {
			return "", "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return "", "", err
		}
		if resp.StatusCode != 200 {
			return "", "", errors.New(resp.Status)
		}
		return string(text), resp.TLS.PeerCertificates[0].SerialNumber.String(), nil
	}
	prometheus := ours.Issue(t, "prometheus")
	text, first, err := scrape("https", prometheus)
	if err != nil || !strings.Contains(text, "weir_class_weight") {
		t.Errorf("a scrape: %v, %.200s", err, text)
	}
	foreign := other.Issue(t, "prometheus")
	foreign.CA = ours.File
	wrong := prometheus
	wrong.CA = other.File
	for name, f := range map[string]tlsfile.Files{
		"no certificate":                  {CA: ours.File},
		"certificate of another CA":       foreign,
		"expired certificate":             ours.Issue(t, "old", tlstest.Expired),
		"server not of the client's CA":   wrong,
		"server is not of the system's":   {},
		"server has not the name that is": {CA: ours.File, Cert: prometheus.Cert, Key: prometheus.Key, ServerName: "other"},
	} {
		if _, _, err := scrape("https", f); err == nil {
			t.Errorf("%s: was served", name)
		}
	}
	if _, _, err := scrape("http", prometheus); err == nil {
		t.Error("in clear: was served")
	}
	ours.Issue(t, "agent") // renewed
	if _, second, err := scrape("https", prometheus); err != nil || second == first {
		t.Errorf("after the renewal: %v, certificate %s, before %s", err, second, first)
	}
}

// slowAgent answers Status only once released.
type slowAgent struct {
	*apitest.Fake
	asked, release chan struct{}
}

func (a *slowAgent) Status(ctx context.Context) (api.Status, error) {
	close(a.asked)
	<-a.release
	return a.Fake.Status(ctx)
}

func TestShutdownLetsRequestsFinish(t *testing.T) {
	agent := &slowAgent{demo(), make(chan struct{}), make(chan struct{})}
	path := filepath.Join(t.TempDir(), "weir.sock")
	s := New(agent, Options{Socket: path, Log: quiet()})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	stop := serve(t, s)
	answer := make(chan error, 1)
	go func() {
		_, err := api.NewClient(path).Status(context.Background())
		answer <- err
	}()
	<-agent.asked
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	<-s.closing.Done()
	close(agent.release)
	if err := <-answer; err != nil {
		t.Errorf("request under way at shutdown: %v", err)
	}
	<-stopped
}

func TestShutdownEndsStreams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.sock")
	s := New(demo(), Options{Socket: path, Log: quiet()})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	stop := serve(t, s)
	first, ended := make(chan struct{}, 1000), make(chan error, 1)
	go func() {
		ended <- api.NewClient(path).Stream(context.Background(), func(api.Sample) error {
			first <- struct{}{}
			return nil
		})
	}()
	<-first
	began := time.Now()
	stop()
	if err := <-ended; !errors.Is(err, api.ErrStreamEnded) {
		t.Errorf("stream: %v, want ErrStreamEnded", err)
	}
	if took := time.Since(began); took >= rest.ShutdownTimeout {
		t.Errorf("shutdown waited %v for a stream", took)
	}
}

// TestShutdownWaitsForNoSilentConnection: a client may dial more than it needs (net/http's does),
// and such a connection carries no request to wait for.
func TestShutdownWaitsForNoSilentConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.sock")
	s := New(demo(), Options{Socket: path, Log: quiet()})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	stop := serve(t, s)
	silent, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := api.NewClient(path).Status(t.Context()); err != nil { // the server has taken the one before
		t.Fatal(err)
	}
	began := time.Now()
	stop()
	if took := time.Since(began); took >= rest.ShutdownTimeout {
		t.Errorf("shutdown waited %v for a connection without a request", took)
	}
}

func TestSlowStreamClientIsCutOff(t *testing.T) {
	fake := apitest.New(manyWorkloads(500)...)
	fake.Interval = time.Millisecond
	agent := &watchedAgent{Fake: fake, left: make(chan struct{})}
	s, client := startWith(t, agent, Options{})
	conn, err := net.Dial("unix", s.opts.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /v1/stream HTTP/1.1\r\nHost: weir\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select { // never read: the server must let go by itself
	case <-agent.left:
	case <-time.After(10 * time.Second):
		t.Fatal("a client that does not read still holds its subscription")
	}
	if _, err := client.Status(t.Context()); err != nil {
		t.Errorf("others are disturbed: %v", err)
	}
}

// watchedAgent says when a subscription ends.
type watchedAgent struct {
	*apitest.Fake
	left chan struct{}
}

func (a *watchedAgent) Subscribe(ctx context.Context) <-chan api.Sample {
	context.AfterFunc(ctx, func() { close(a.left) })
	return a.Fake.Subscribe(ctx)
}

func manyWorkloads(n int) []api.Workload {
	ws := make([]api.Workload, n)
	for i := range ws {
		ws[i] = apitest.Workload("w"+strings.Repeat("x", i%7)+string(rune('a'+i%26)), 1, 0, 0, 1)
		ws[i].Class = uint16(i)
	}
	return ws
}

// usageAgent answers Usage only once released.
type usageAgent struct {
	*apitest.Fake
	asked, release chan struct{}
}

func (a *usageAgent) Usage(ctx context.Context, _ api.UsageQuery) (api.Usage, error) {
	a.asked <- struct{}{}
	<-a.release
	return api.Usage{}, ctx.Err()
}

// TestUsageIsReadByFewAtOnce: each question about the usage reads the files of all days, so one
// user has four at once under way, and further ones are refused.
func TestUsageIsReadByFewAtOnce(t *testing.T) {
	const questions = 20
	agent := &usageAgent{demo(), make(chan struct{}, questions), make(chan struct{})}
	client := start(t, agent)
	answers := make(chan error, questions)
	for range questions {
		go func() {
			_, err := client.Usage(t.Context(), api.UsageQuery{})
			answers <- err
		}()
	}
	for range questions - 4 {
		select {
		case err := <-answers:
			if !refusal.Is(err, refusal.TooMany) {
				t.Error(err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%d questions are under way", len(agent.asked))
		}
	}
	close(agent.release)
	for range 4 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}
