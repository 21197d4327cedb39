// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/base/crowd/crowdtest"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
)

// untouched is a body that notes whether it is read.
type untouched struct {
	io.Reader
	read bool
}

func (u *untouched) Read(p []byte) (int, error) {
	u.read = true
	return u.Reader.Read(p)
}

// brackets is a body whose queues are nested so many levels deep, in a text that a parser
// of YAML would read.
func brackets(levels int) string {
	return `{"node":"a","id":"p","container":"c","min_bps":1,"refusal":"","change":{"queues":"` + strings.Repeat("[", levels) + `"}}`
}

// stranger makes a request without a certificate of the cluster.
func stranger(ctx context.Context, h http.Handler, method, path string, body io.Reader) *httptest.ResponseRecorder {
	return strangerAt(ctx, h, "192.0.2.1:1", method, path, body)
}

// strangerAt makes such a request from an address.
func strangerAt(ctx context.Context, h http.Handler, address, method, path string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, path, body)
	r.RemoteAddr = address
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestStrangersBodiesAreNotRead: a request without a certificate of the cluster is refused
// before its body is read, on every route but the two by which a node becomes a member.
func TestStrangersBodiesAreNotRead(t *testing.T) {
	w := newWalk(t)
	h := w.nodesHandler()
	for _, path := range []string{"/v1/places", "/v1/grants", "/v1/members", "/v1/info", "/openapi.json", "/openapi-3.0.yaml", "/v1/unknown", "/", imagesPath, imagesPath + "weir-move/blobs/uploads/"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, "BREW"} {
			body := &untouched{Reader: strings.NewReader(brackets(12 << 10))}
			rec := stranger(t.Context(), h, method, path, body)
			if rec.Code != http.StatusForbidden || body.read || rec.Body.Len() > 1<<10 {
				t.Errorf("%s %s: status %d, body read: %v, an answer of %d bytes", method, path, rec.Code, body.read, rec.Body.Len())
			}
		}
	}
}

// TestRefusedJoinsAreBounded: an address whose requests to join are refused is soon told to
// wait, unread; another joins meanwhile. The logs have some lines about all of them, and no
// text of a stranger's as it came.
func TestRefusedJoinsAreBounded(t *testing.T) {
	var lines bytes.Buffer
	w := newWalk(t)
	w.Manager.log = slog.New(slog.NewTextHandler(&lines, nil))
	w.strangers = newStrangers(w.Manager)
	h := w.nodesHandler()
	const hostile = "X\nlevel=ERROR msg=forged"
	statuses := map[int]int{}
	for i := range 1000 {
		what := &untouched{Reader: strings.NewReader(fmt.Sprintf(`{"token":"x","secret":"%s","node":"%s%d","request":"AA=="}`, strings.Repeat("s", 100), `X\nlevel=ERROR msg=forged`, i))}
		path := []string{"/v1/join", "/v1/renew"}[i%2]
		code := strangerAt(t.Context(), h, fmt.Sprintf("192.0.2.1:%d", 1024+i), http.MethodPost, path, what).Code
		if statuses[code]++; code == http.StatusTooManyRequests && what.read {
			t.Error("a request over the rate was read")
		}
	}
	if read := 1000 - statuses[http.StatusTooManyRequests]; read < failuresAtOnce || read > failuresAtOnce+60 {
		t.Errorf("%v", statuses)
	}
	if n := strings.Count(lines.String(), "\n"); n > 20 || lines.Len() > 8<<10 || strings.Contains(lines.String(), hostile) {
		t.Errorf("%d lines, %d bytes: %.2000s", n, lines.Len(), lines.String())
	}
	if n := len(w.added()); n > 60 {
		t.Errorf("%d lines of the audit log", n)
	}
	if rec := strangerAt(t.Context(), h, "192.0.2.2:1", http.MethodPost, "/v1/join", bytes.NewReader(joining(t, w, "late"))); rec.Code != http.StatusOK {
		t.Errorf("a node with a token: %d %s", rec.Code, rec.Body)
	}
}

// TestManyStrangersKeepNoNodeOut: strangers with thousands of addresses whose requests to join are
// refused, of which many are slow to send theirs, do not keep a node out that has a token.
func TestManyStrangersKeepNoNodeOut(t *testing.T) {
	w := newWalk(t)
	h := w.nodesHandler()
	for i := range 5000 {
		address := fmt.Sprintf("198.18.%d.%d:1", i/250, i%250)
		strangerAt(t.Context(), h, address, http.MethodPost, "/v1/join", strings.NewReader(`{"token":"x","secret":"y","node":"new","request":"AA=="}`))
	}
	var running sync.WaitGroup
	defer running.Wait()
	for i := range 4 * answered {
		body, never := io.Pipe()
		running.Go(func() {
			strangerAt(t.Context(), h, fmt.Sprintf("203.0.113.%d:1", i), http.MethodPost, "/v1/join", body)
		})
		defer never.Close()
	}
	begun := time.Now()
	if rec := strangerAt(t.Context(), h, "192.0.2.2:1", http.MethodPost, "/v1/join", bytes.NewReader(joining(t, w, "late"))); rec.Code != http.StatusOK {
		t.Errorf("a node with a token: %d %s", rec.Code, rec.Body)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

// joining returns the body of a request to join by a token.
func joining(t *testing.T, w *walk, node string) []byte {
	t.Helper()
	made, err := w.NewToken(t.Context(), api.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := pki.ParseToken(made.Token)
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.Request(keyOf(99))
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(wire.JoinRequest{Token: token.ID, Secret: token.Secret, Node: node, Request: request})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestWhatRefusalsCost: a request that is refused at the port for nodes costs little, on every
// route and for every reason.
func TestWhatRefusalsCost(t *testing.T) {
	w := newWalk(t)
	h := w.nodesHandler()
	for route := range operations(t, w.nodesAPI().Mux) {
		method, path, _ := strings.Cut(route, " ")
		if slices.Contains(forStrangers, route) {
			continue
		}
		crowdtest.Refused(t, h, "no certificate", crowdtest.RefusedRequest{Method: method, Path: path, Body: crowdtest.Long}, http.StatusForbidden, true)
		crowdtest.Refused(t, h, "of no member", crowdtest.RefusedRequest{Method: method, Path: path, Body: crowdtest.Long, With: func(r *http.Request) {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: "gone"}}}}
		}}, http.StatusForbidden, true)
	}
	for _, path := range []string{"/openapi.json", "/", "/" + strings.Repeat("x", 8<<10), imagesPath, imagesPath + "weir-move/manifests/m"} {
		crowdtest.Refused(t, h, "no certificate", crowdtest.RefusedRequest{Method: http.MethodGet, Path: path}, http.StatusForbidden, true)
	}
	flat := `{"token":"x","secret":"y","node":"new","request":"` + strings.Repeat("A", 3<<10) + `"`
	port := 0
	fresh := func(r *http.Request) { port++; r.RemoteAddr = fmt.Sprintf("198.51.100.%d:%d", port%250, port) }
	for _, path := range []string{"/v1/join", "/v1/renew"} {
		for what, c := range map[string]struct {
			body   string
			with   func(*http.Request)
			status int
			unread bool
		}{
			"too long":          {crowdtest.Long, fresh, http.StatusRequestEntityTooLarge, true},
			"too long, unsaid":  {crowdtest.Long, func(r *http.Request) { fresh(r); r.ContentLength = -1 }, http.StatusRequestEntityTooLarge, false},
			"another type":      {crowdtest.Long, func(r *http.Request) { fresh(r); r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType, true},
			"too deep":          {strings.Repeat("[", 4<<10), fresh, http.StatusBadRequest, false},
			"too many values":   {"[" + strings.Repeat("0,", 2<<10-2) + "0]", fresh, http.StatusBadRequest, false},
			"no JSON":           {flat, fresh, http.StatusBadRequest, false},
			"not what is asked": {flat[:len(flat)-1] + `x","more":1}`, fresh, 0, false},
			"refused too often": {crowdtest.Long, func(r *http.Request) { r.RemoteAddr = "203.0.113.1:1" }, http.StatusTooManyRequests, true},
		} {
			if what == "refused too often" {
				for range failuresAtOnce + 1 {
					w.strangers.each.Take("203.0.113.1", time.Now())
				}
			}
			crowdtest.Refused(t, h, what, crowdtest.RefusedRequest{Method: http.MethodPost, Path: path, Body: c.body, With: c.with}, c.status, c.unread)
		}
	}
	crowdtest.Refused(t, h, "a token that is none", crowdtest.RefusedRequest{Method: http.MethodPost, Path: "/v1/join", With: fresh,
		Body: `{"token":"x","secret":"y","node":"new","request":"AA=="}`}, http.StatusForbidden, false)
}
