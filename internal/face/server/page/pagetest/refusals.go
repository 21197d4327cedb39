// SPDX-License-Identifier: Apache-2.0

package pagetest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/internal/base/crowd/crowdtest"
)

// Operation is one route of an OpenAPI document.
type Operation struct {
	Method, Path string
	ID           string `json:"operationId"`
	Role         string `json:"x-weir-role"`
}

// Operations returns all routes that an OpenAPI document has.
func Operations(t *testing.T, document []byte) (list []Operation) {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]Operation
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths {
		for method, op := range item {
			op.Method, op.Path = strings.ToUpper(method), path
			list = append(list, op)
		}
	}
	if len(list) < 10 {
		t.Fatalf("only %d routes in the document", len(list))
	}
	return list
}

// strangers are those that the page of a host refuses, and how.
var strangers = map[string]struct {
	with   func(*http.Request)
	status int
}{
	"no token": {func(*http.Request) {}, http.StatusUnauthorized},
	"a wrong token": {func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+strings.Repeat("A", 8<<10))
	}, http.StatusUnauthorized},
	"another name":      {func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
	"a page of another": {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden},
}

// WhatRefusalsCost checks that a request that is refused because of who asks costs little, on
// every route of an API: as view has it for those who may only look, and as site has it on the
// page. None of its body is read.
func WhatRefusalsCost(t *testing.T, view, site http.Handler) {
	t.Helper()
	document := httptest.NewRecorder()
	view.ServeHTTP(document, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.json", nil))
	atPage := func(with func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) { r.Host = "localhost"; with(r) }
	}
	changes := 0
	for _, op := range Operations(t, document.Body.Bytes()) {
		q := crowdtest.RefusedRequest{Method: op.Method, Path: strings.NewReplacer("{name}", "web", "{id}", "m-1").Replace(op.Path), Body: crowdtest.Long}
		if op.Role == "change" {
			changes++
			crowdtest.Refused(t, view, "a viewer", q, http.StatusForbidden, true)
		}
		if !strings.HasPrefix(op.Path, "/v1/") {
			continue
		}
		for what, s := range strangers {
			q.With = atPage(s.with)
			crowdtest.Refused(t, site, what, q, s.status, true)
		}
	}
	if changes < 5 {
		t.Errorf("%d routes change something", changes)
	}
	crowdtest.Refused(t, site, "no link", crowdtest.RefusedRequest{Method: http.MethodPost, Path: "/session", Body: crowdtest.Long,
		With: atPage(func(*http.Request) {})}, http.StatusUnauthorized, false)
}
