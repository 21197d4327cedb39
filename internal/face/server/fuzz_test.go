// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// changing are the routes that take a body.
var changing = []struct{ method, path string }{
	{"PATCH", "/v1/workloads/web/policy?dry_run=true"},
	{"PATCH", "/v1/workloads/web/policy"},
	{"POST", "/v1/workloads"},
	{"PATCH", "/v1/groups/office"},
	{"PUT", "/v1/allocations/u1"},
	{"PATCH", "/v1/workloads/web/control"},
	{"POST", "/v1/workloads/web/tune"},
}

// FuzzBodies: whatever is sent as a body, the answer is JSON, says that the request and
// not the server is at fault, and is not much larger than the request.
func FuzzBodies(f *testing.F) {
	for i, body := range []string{
		`{"weight":3,"min":"20mbit","max":"50%"}`, `{"name":"x","netns":"y"}`, `{"weight":1}`, `{"min":null}`,
		`{"frozen":true}`, `{"queues":[{"name":"a","match":[{"udp":[5000,"1-2"]}],"rate":"1mbit"}],"discipline":"llq"}`,
		`{"ingress":{"ingress":{"ingress":{}}}}`, `[[[[[[`, `{"weight":1e999}`, "\x00", `{"name":"` + strings.Repeat("a", 300) + `","cgroup":"../../.."}`,
	} {
		f.Add(i, body)
	}
	var handler http.Handler
	calls := 0
	for route := range changing {
		for _, text := range boundtest.Changes(bound.Body) {
			f.Add(route, text)
		}
		for _, text := range boundtest.Texts(bound.Body, `{"queues":`, `{"when":"`, `{"ingress":`) {
			f.Add(route, text)
		}
	}
	f.Fuzz(func(t *testing.T, route int, body string) {
		boundtest.Hold(t, func() {
			if calls%500 == 0 { // what was attached and set is forgotten
				handler = New(demo(), Options{Log: quiet()}).Handler()
			}
			calls++
			to := changing[uint(route)%uint(len(changing))]
			req := httptest.NewRequest(to.method, to.path, strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, req)
			if rec.Code >= 500 || !json.Valid(rec.Body.Bytes()) {
				t.Errorf("%s %s: %d %q", to.method, to.path, rec.Code, rec.Body)
			}
			var p api.ProblemDetails
			if rec.Code >= 400 && (json.Unmarshal(rec.Body.Bytes(), &p) != nil || p.Status != rec.Code || p.Detail == "") {
				t.Errorf("%s %s: %d without a problem: %q", to.method, to.path, rec.Code, rec.Body)
			}
			if rec.Body.Len() > 20000+20*len(body) {
				t.Errorf("%s %s: an answer of %d bytes to %d", to.method, to.path, rec.Body.Len(), len(body))
			}
		})
	})
}
