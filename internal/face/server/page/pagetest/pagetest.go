// SPDX-License-Identifier: Apache-2.0

// Package pagetest visits a page in tests, as a browser does: by a link, with a token.
package pagetest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"weir/internal/api"
)

// Ask sends a request to the page at host:port, with a token unless that is "".
func Ask(t *testing.T, addr, method, path, token, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Open returns the token of a session that a link begins, which must lead to host:port and
// give the role that it says.
func Open(t *testing.T, addr string, link api.WebLink, err error) (token string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(link.URL)
	if err != nil || at.Host != addr {
		t.Fatalf("%v: %s", err, link.URL)
	}
	status, answer := Ask(t, addr, http.MethodPost, "/session", "", `{"code":"`+at.Fragment+`"}`)
	var session struct{ Token, Role string }
	if err := json.Unmarshal([]byte(answer), &session); err != nil || status != http.StatusOK || session.Role != link.Role {
		t.Fatalf("%v: status %d, %s; the link has the role %s", err, status, answer, link.Role)
	}
	return session.Token
}
