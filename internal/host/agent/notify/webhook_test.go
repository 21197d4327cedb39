// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/core/event"
	"weir/internal/test/logtest"
)

func sample(id uint64) event.Event {
	at := time.Now().UTC()
	return event.Event{ID: id, At: at, Began: at, Kind: "refused", State: event.Begin, Severity: event.Warning,
		Subject: event.Subject{Type: event.Workload, Name: "web"}, Text: "web: no room", Remedy: "ask for less"}
}

// server is a webhook's server that answers as it is told, and keeps what it gets.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	answers []int // of the next requests; then 200
	got     []*http.Request
	bodies  []string
}

func newServer(t *testing.T, answers ...int) *server {
	s := &server{answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got, s.bodies = append(s.got, r), append(s.bodies, string(body))
	if len(s.answers) > 0 {
		code := s.answers[0]
		s.answers = s.answers[1:]
		w.Header().Set("Location", "https://elsewhere.example.org/")
		w.WriteHeader(code)
		io.WriteString(w, "says no\n")
	}
}

func (s *server) ids() (ids []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, body := range s.bodies {
		var m message
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			panic(err)
		}
		ids = append(ids, m.ID)
	}
	return ids
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not come true", what)
		}
	}
}

// telling returns sinks with a log that follow a configuration until the test ends.
func telling(t *testing.T, c config.Tell) (*Sinks, *logtest.Buffer) {
	log := &logtest.Buffer{}
	s := New(slog.New(slog.NewTextHandler(log, nil)), nil, nil)
	s.Follow(c)
	t.Cleanup(s.Close)
	return s, log
}

func hook(url string) config.Tell {
	c := config.DefaultTell()
	c.Webhook.URL = url
	return c
}

// TestWebhook: requests are what the page says, and signed.
func TestWebhook(t *testing.T) {
	s := newServer(t)
	c := hook(s.URL + "/T0K3N")
	key := []byte("0123456789abcdef0123456789abcdef")
	c.Webhook.SecretFile = filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(c.Webhook.SecretFile, []byte("whsec_"+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sinks, log := telling(t, c)
	sinks.Offer([]event.Event{sample(7)})
	await(t, "delivered", func() bool { return sinks.Status()[0].Delivered == 1 })
	r, body := s.got[0], s.bodies[0]
	mac := hmac.New(sha256.New, key)
	io.WriteString(mac, r.Header.Get("Webhook-Id")+"."+r.Header.Get("Webhook-Timestamp")+"."+body)
	if got, want := r.Header.Get("Webhook-Signature"), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
	if r.Method != http.MethodPost || r.URL.Path != "/T0K3N" || r.Header.Get("Content-Type") != "application/json" || !strings.HasSuffix(r.Header.Get("Webhook-Id"), "-7") {
		t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	for _, member := range []string{`"id":7`, `"kind":"refused"`, `"state":"begin"`, `"subject":{"type":"workload","name":"web"}`, `"text":"web: no room"`, `"host":"`} {
		if !strings.Contains(body, member) {
			t.Errorf("%s lacks %s", body, member)
		}
	}
	if status := fmt.Sprint(sinks.Status()); strings.Contains(status+log.String(), "T0K3N") {
		t.Errorf("the path is shown: %s %s", status, log)
	}
	if reached := sinks.Reached(); reached[toWebhook] != 7 {
		t.Errorf("%v", reached)
	}
}

// TestAnswers: which answers are tried again, and which give an event up at once.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		answer   int
		attempts int
	}{{200, 1}, {204, 1}, {500, 2}, {503, 2}, {429, 2}, {408, 2}, {425, 2}, {400, 1}, {401, 1}, {404, 1}, {410, 1}, {301, 1}, {307, 1}} {
		t.Run(fmt.Sprint(c.answer), func(t *testing.T) {
			t.Parallel()
			s := newServer(t, c.answer)
			sinks, log := telling(t, hook(s.URL))
			sinks.Offer([]event.Event{sample(1), sample(2)})
			await(t, "both are done", func() bool { return sinks.Reached()[toWebhook] == 2 })
			if got := len(s.ids()); got != c.attempts+1 {
				t.Errorf("%d requests, want %d\n%s", got, c.attempts+1, log)
			}
			lost := sinks.Status()[0].Undelivered
			if wantLost := c.answer >= 300 && c.attempts == 1; (lost == 1) != wantLost || sinks.Status()[0].Error != "" {
				t.Errorf("%+v", sinks.Status())
			}
		})
	}
}

// TestOutage: while the server is away events wait in their order, the queue is bounded, the
// log has one line, and nothing that is offered waits for the server.
func TestOutage(t *testing.T) {
	s := newServer(t)
	address := s.URL
	s.Close()
	sinks, log := telling(t, hook(address+"/T0K3N"))
	begin := time.Now()
	for id := uint64(1); id <= most+50; id++ {
		sinks.Offer([]event.Event{sample(id)})
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("offering took %v", took)
	}
	await(t, "the error", func() bool { return sinks.Status()[0].Error != "" })
	status := sinks.Status()[0]
	if status.Waiting != most || status.Undelivered != 50 || strings.Contains(status.Error, "T0K3N") || !strings.Contains(status.Error, "refused") {
		t.Errorf("%+v", status)
	}
	if n := strings.Count(log.String(), "event not delivered"); n != 1 {
		t.Errorf("%d lines\n%s", n, log)
	}
	again := newServer(t)
	sinks.Follow(hook(again.URL))
	await(t, "all are delivered", func() bool { return sinks.Status()[0].Delivered == most })
	ids := again.ids()
	for i, id := range ids {
		if id != uint64(51+i) {
			t.Fatalf("event %d is the %d. to come", id, i)
		}
	}
	if status := sinks.Status()[0]; status.Undelivered != 50 || status.Waiting != 0 {
		t.Errorf("%+v", status)
	}
}

// TestSlowServer: a server that does not answer is left after the timeout.
func TestSlowServer(t *testing.T) {
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer slow.Close()
	defer close(release)
	c := hook(slow.URL)
	c.Webhook.Timeout = 100 * time.Millisecond
	sinks, _ := telling(t, c)
	sinks.Offer([]event.Event{sample(1)})
	await(t, "the timeout", func() bool { return strings.Contains(sinks.Status()[0].Error, "Timeout") })
	begin := time.Now()
	sinks.Close()
	if took := time.Since(begin); took > time.Second {
		t.Errorf("closing took %v", took)
	}
}

// TestUnknownCertificate: a server whose certificate no known authority has signed gets nothing,
// one of the given authority does.
func TestUnknownCertificate(t *testing.T) {
	got := make(chan string, 9)
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	defer s.Close()
	sinks, _ := telling(t, hook(s.URL+"/x"))
	sinks.Offer([]event.Event{sample(1)})
	await(t, "the refusal", func() bool { return strings.Contains(sinks.Status()[0].Error, "give the authority that signed it") })
	if len(got) > 0 {
		t.Error("the server has got a request")
	}
	c := hook(s.URL + "/x")
	c.Webhook.CA = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(c.Webhook.CA, pemOf(s.Certificate().Raw), 0o644); err != nil {
		t.Fatal(err)
	}
	sinks.Follow(c)
	await(t, "delivered", func() bool { return sinks.Status()[0].Delivered == 1 })
}

// TestSecretsThatAreNone: an event waits, unsent, until the secret is right.
func TestSecretsThatAreNone(t *testing.T) {
	s := newServer(t)
	c := hook(s.URL)
	c.Webhook.SecretFile = filepath.Join(t.TempDir(), "secret")
	for _, secret := range []struct {
		text, problem string
		mode          os.FileMode
	}{
		{"hunter2", "openssl rand", 0o600},
		{"whsec_" + base64.StdEncoding.EncodeToString([]byte("short")), "24 bytes", 0o600},
		{"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32)), "open to other users", 0o644},
	} {
		if err := os.WriteFile(c.Webhook.SecretFile, []byte(secret.text), secret.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(c.Webhook.SecretFile, secret.mode); err != nil {
			t.Fatal(err)
		}
		sinks, _ := telling(t, c)
		sinks.Offer([]event.Event{sample(1)})
		await(t, "refused", func() bool { return strings.Contains(sinks.Status()[0].Error, secret.problem) })
		sinks.Close()
	}
	if n := len(s.ids()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
