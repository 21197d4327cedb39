// SPDX-License-Identifier: Apache-2.0

package web

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"

	"weir/internal/base/audit"
)

// TestProxy: the user whom the proxy names has the role that weir.yaml gives; without the
// proxy's certificate, or with two names, nobody is believed.
func TestProxy(t *testing.T) {
	s, err := NewSessions(t.TempDir()+"/web.key", Agent)
	if err != nil {
		t.Fatal(err)
	}
	var role, user string
	page := Handler(Options{Program: Agent, Sessions: s, Proxy: Proxy{Header: "X-User", Change: []string{"alice"}, View: []string{"bob"}},
		API: func(_ http.ResponseWriter, _ *http.Request, s Session, who audit.Who) { role, user = s.Role, who.User }})
	secure := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{}}}}
	for _, c := range []struct {
		what   string
		names  []string
		tls    *tls.ConnectionState
		status int
		role   string
	}{
		{"may change", []string{"alice"}, secure, 200, "change"},
		{"may look", []string{"bob"}, secure, 200, "view"},
		{"unknown", []string{"mallory"}, secure, 401, ""},
		{"two names", []string{"alice", "mallory"}, secure, 401, ""},
		{"no name", nil, secure, 401, ""},
		{"in clear", []string{"alice"}, nil, 401, ""},
		{"without a certificate", []string{"alice"}, &tls.ConnectionState{}, 401, ""},
	} {
		role, user = "", ""
		r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/status", nil)
		r.TLS, r.Header["X-User"] = c.tls, c.names
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		if w.Code != c.status || role != c.role {
			t.Errorf("%s: status %d, role %q", c.what, w.Code, role)
		}
		if role != "" && user != proxied+c.names[0] {
			t.Errorf("%s: the author is %q", c.what, user)
		}
	}
}
