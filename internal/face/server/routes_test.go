// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/api/rest"
	"weir/internal/core/refusal"
)

// request makes one request of the handler and returns status, type and body.
func request(t *testing.T, agent api.Agent, method, path, body string) (int, string, string) {
	t.Helper()
	var payload io.Reader
	if body != "" {
		payload = strings.NewReader(body)
	}
	req := httptest.NewRequest(method, path, payload)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	rec := httptest.NewRecorder()
	New(agent, Options{Log: quiet()}).Handler().ServeHTTP(rec, req)
	return rec.Code, rec.Header().Get("Content-Type"), rec.Body.String()
}

func TestProblems(t *testing.T) {
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		field, detail, remedy    string
	}{
		{"unknown workload", "GET", "/v1/workloads/nobody", "", 404, "workload", "nobody", "weir get"},
		{"unknown workload to explain", "GET", "/v1/workloads/nobody/explain", "", 404, "workload", "nobody", "weir get"},
		{"bad rate", "PATCH", "/v1/workloads/web/policy", `{"min":"20 bananas"}`, 422, "min", "unknown unit", "20mbit"},
		{"admission", "PATCH", "/v1/workloads/batch/policy", `{"min":"90mbit"}`, 409, "min", "80 Mbit/s free", "at most 80mbit"},
		{"weight too small", "PATCH", "/v1/workloads/web/policy", `{"weight":0}`, 422, "weight", ">= 1", "openapi"},
		{"weight too large", "PATCH", "/v1/workloads/web/policy", `{"weight":10001}`, 422, "weight", "<= 10000", "openapi"},
		{"weight is no number", "PATCH", "/v1/workloads/web/policy", `{"weight":"3"}`, 422, "weight", "integer", "openapi"},
		{"misspelt field", "PATCH", "/v1/workloads/web/policy", `{"wieght":3}`, 422, "wieght", "unexpected property", "did you mean weight?"},
		{"misspelt dry_run", "PATCH", "/v1/workloads/web/policy?dryrun=true", `{"weight":3}`, 422, "dryrun", "unknown query", "did you mean dry_run?"},
		{"dry_run is no truth value", "DELETE", "/v1/workloads/cam?dry_run=maybe", "", 422, "dry_run", "boolean", "openapi"},
		{"no JSON", "PATCH", "/v1/workloads/web/policy", `{"weight":`, 400, "body", "JSON", "openapi"},
		{"no body", "PATCH", "/v1/workloads/web/policy", "", 400, "", "request body is required", ""},
		{"two mistakes", "PATCH", "/v1/workloads/web/policy", `{"weight":0,"wieght":3}`, 422, "", "unexpected property", "openapi"},
		{"body too large", "PATCH", "/v1/workloads/web/policy", `{"min":"` + strings.Repeat("x", rest.MaxBodyBytes) + `"}`, 413, "", "too large", ""},
		{"attach without a name", "POST", "/v1/workloads", `{"netns":"x"}`, 422, "name", "missing", "openapi"},
		{"attach a name in use", "POST", "/v1/workloads", `{"name":"web","netns":"x"}`, 409, "name", "taken", "another name"},
		{"detach a container", "DELETE", "/v1/workloads/web", "", 409, "workload", "not attached", "weir set"},
		{"no such route", "GET", "/v2/status", "", 404, "path", "no such route", "openapi"},
		{"wrong method", "PUT", "/v1/workloads/web", "", 405, "method", "PUT", "GET or DELETE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, ctype, body := request(t, demo(), tt.method, tt.path, tt.body)
			var p api.ProblemDetails
			if err := json.Unmarshal([]byte(body), &p); err != nil {
				t.Fatalf("%v in %q", err, body)
			}
			if status != tt.status || p.Status != tt.status || ctype != "application/problem+json" {
				t.Errorf("status %d (%d in the body), type %q; want %d, problem details", status, p.Status, ctype, tt.status)
			}
			if !p.Kind.Known() || !p.Kind.Is(api.KindOf(tt.status)) {
				t.Errorf("kind %q with status %d", p.Kind, tt.status)
			}
			if tt.field != "" && p.Field != tt.field {
				t.Errorf("field %q, want %q", p.Field, tt.field)
			}
			if !strings.Contains(strings.ToLower(p.Detail), strings.ToLower(tt.detail)) || !strings.Contains(p.Remedy, tt.remedy) {
				t.Errorf("detail %q, remedy %q; want %q, %q in them", p.Detail, p.Remedy, tt.detail, tt.remedy)
			}
		})
	}
}

// TestNoRoomCrossesWithItsNumbers: a program gets the numbers of a refusal without reading
// its sentence.
func TestNoRoomCrossesWithItsNumbers(t *testing.T) {
	_, err := start(t, demo()).Set(t.Context(), "batch", apitest.Change("min", "90mbit"), false)
	e := refusal.Of(err)
	if e == nil || e.Kind != refusal.NoRoom || e.Object != "link eth0" || e.Numbers == nil ||
		*e.Numbers != (refusal.Numbers{AskedBps: 90e6, ReservedBps: 20e6, LimitBps: 100e6, FreeBps: 80e6}) {
		t.Errorf("%+v", e)
	}
}

// TestOpenAPIHasTheKinds: the document lists each kind and says what it means.
func TestOpenAPIHasTheKinds(t *testing.T) {
	_, _, text := request(t, demo(), "GET", "/openapi.json", "")
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Enum        []refusal.Kind
					Description string
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	kind := document.Components.Schemas["Problem"].Properties["kind"]
	for _, r := range refusal.Kinds {
		if !slices.Contains(kind.Enum, r.Kind) || !strings.Contains(kind.Description, string(r.Kind)+": "+r.Means) {
			t.Errorf("%s is not in %+v", r.Kind, kind)
		}
	}
	if len(kind.Enum) != len(refusal.Kinds) {
		t.Errorf("%d kinds, want %d", len(kind.Enum), len(refusal.Kinds))
	}
}

// TestOpenAPIKeepsItsNames: a schema keeps the name that it was published with, whatever its type
// is called by now.
func TestOpenAPIKeepsItsNames(t *testing.T) {
	_, _, text := request(t, demo(), "GET", "/openapi.json", "")
	for name, there := range map[string]bool{"Change": true, "Problem": true, "Edit": false, "ProblemDetails": false} {
		if strings.Contains(text, `"#/components/schemas/`+name+`"`) != there {
			t.Errorf("the document refers to the schema %s: %v", name, !there)
		}
	}
}

func TestAgentFailureIsA500WithItsText(t *testing.T) {
	fake := demo()
	fake.Fail = errors.New("netlink: out of buffers")
	for _, path := range []string{"/v1/status", "/v1/workloads", "/v1/workloads/web", "/v1/workloads/web/explain"} {
		status, _, body := request(t, fake, "GET", path, "")
		if status != 500 || !strings.Contains(body, "out of buffers") || !strings.Contains(body, "journalctl") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, _, body := request(t, fake, "GET", "/metrics", ""); status != 500 || !strings.Contains(body, "out of buffers") {
		t.Errorf("/metrics: %d %s", status, body)
	}
}

// TestClientSpeaksEveryRoute goes through the real socket and the real client.
func TestClientSpeaksEveryRoute(t *testing.T) {
	client, ctx := start(t, demo()), t.Context()
	if st, err := client.Status(ctx); err != nil || st.Links[0].Device != "eth0" {
		t.Errorf("Status: %+v, %v", st, err)
	}
	if ws, err := client.Workloads(ctx); err != nil || len(ws) != len(apitest.Demo()) {
		t.Errorf("Workloads: %d, %v", len(ws), err)
	}
	if w, err := client.Workload(ctx, "4f5e6d"); err != nil || w.Name != "web" {
		t.Errorf("Workload by id prefix: %q, %v", w.Name, err)
	}
	if e, err := client.Explain(ctx, "web"); err != nil || e.Links[0].Binds != "share" || len(e.Links[0].Others) == 0 {
		t.Errorf("Explain: %+v, %v", e, err)
	}
	office := start(t, demo().WithGroup("of fice/1", 2, 0, 40))
	if g, err := office.Group(ctx, "of fice/1"); err != nil || g.Policy.Max.Compact() != "40mbit" {
		t.Errorf("Group: %+v, %v", g, err)
	}
	if e, err := office.ExplainGroup(ctx, "of fice/1"); err != nil || e.Links[0].Device != "eth0" {
		t.Errorf("ExplainGroup: %+v, %v", e, err)
	}
	allocation := api.AllocationRequest{For: "shop/uplink", Pods: []string{"shop/web-0"}, Mins: []api.LinkMin{{Device: "eth0", Direction: "egress", MinBps: 5e6}}}
	if r, err := client.Allocate(ctx, "u/1", allocation, false); err != nil || len(r.Changes) != 1 {
		t.Errorf("Allocate: %+v, %v", r, err)
	}
	if as, err := client.Allocations(ctx); err != nil || len(as) != 1 || as[0].Name != "u/1" || !as[0].Mins[0].Held {
		t.Errorf("Allocations: %+v, %v", as, err)
	}
	if _, err := client.Release(ctx, "u/1", false); err != nil {
		t.Error(err)
	}
	if _, err := client.Release(ctx, "u/1", false); !refusal.Is(err, refusal.Unknown) {
		t.Errorf("released twice: %v", err)
	}
	name := "odd name/with ünicode?"
	if r, err := client.Attach(ctx, api.AttachRequest{Name: name, Netns: "blue"}, false); err != nil || r.DryRun {
		t.Errorf("Attach: %+v, %v", r, err)
	}
	if r, err := client.Set(ctx, name, apitest.Change("weight", "7"), true); err != nil || !r.DryRun || r.Workload.Policy.Weight != 7 {
		t.Errorf("Set, dry run: %+v, %v", r, err)
	}
	if w, err := client.Workload(ctx, name); err != nil || w.Policy.Weight != 1 {
		t.Errorf("the dry run changed something: %+v, %v", w.Policy, err)
	}
	if _, err := client.Set(ctx, name, apitest.Change("weight", "7"), false); err != nil {
		t.Error(err)
	}
	if w, err := client.Workload(ctx, name); err != nil || w.Policy.Weight != 7 {
		t.Errorf("Set had no effect: %+v, %v", w.Policy, err)
	}
	if _, err := client.Detach(ctx, name, false); err != nil {
		t.Error(err)
	}
	var refused *refusal.Error
	if _, err := client.Workload(ctx, name); !errors.As(err, &refused) || refused.Kind != refusal.Unknown || refused.Value != name {
		t.Errorf("after Detach: %#v", err)
	}
	stop := errors.New("seen enough")
	n := 0
	err := client.Stream(ctx, func(s api.Sample) error {
		if n++; n < 3 {
			return nil
		}
		if len(s.Workloads) != len(apitest.Demo()) || !s.At.After(apitest.Start) {
			t.Errorf("third sample: %+v", s)
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Errorf("Stream: %v", err)
	}
}

func TestAnswersNeverHoldNull(t *testing.T) {
	bare := apitest.Workload("bare", 1, 0, 0, 0)
	bare.Origin, bare.Devices, bare.Links[0].Drops = nil, nil, nil
	empty := api.Workload{Name: "empty"}
	fake := apitest.New(bare, empty)
	for _, path := range []string{"/v1/status", "/v1/workloads", "/v1/workloads/bare", "/v1/workloads/empty", "/v1/workloads/bare/explain"} {
		if _, _, body := request(t, fake, "GET", path, ""); strings.Contains(body, "null") {
			t.Errorf("%s: %s", path, body)
		}
	}
	_, _, body := request(t, fake, "PATCH", "/v1/workloads/bare/policy", `{}`)
	if strings.Contains(body, "null") {
		t.Errorf("policy: %s", body)
	}
}

// TestOpenAPI checks what a generator of clients relies on: the version, every
// route, unique operation ids, and references that lead somewhere.
func TestOpenAPI(t *testing.T) {
	status, _, body := request(t, demo(), "GET", "/openapi.json", "")
	if status != 200 {
		t.Fatal(status)
	}
	var doc struct {
		OpenAPI    string
		Info       struct{ Title, Version, Description string }
		Paths      map[string]map[string]struct{ OperationID string }
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") || doc.Info.Title != "Weir" || doc.Info.Version == "" {
		t.Errorf("openapi %q, info %+v", doc.OpenAPI, doc.Info)
	}
	var routes []string
	ids := map[string]bool{}
	for path, item := range doc.Paths {
		for method, op := range item {
			routes = append(routes, strings.ToUpper(method)+" "+path)
			if op.OperationID == "" || ids[op.OperationID] {
				t.Errorf("%s %s: operation id %q is missing or used twice", method, path, op.OperationID)
			}
			ids[op.OperationID] = true
		}
	}
	slices.Sort(routes)
	want := []string{
		"DELETE /v1/allocations/{name}", "DELETE /v1/groups/{name}", "DELETE /v1/web", "DELETE /v1/workloads/{name}", "GET /metrics", "GET /v1/allocations", "GET /v1/audit", "GET /v1/divide", "GET /v1/events", "GET /v1/groups",
		"GET /v1/groups/{name}", "GET /v1/groups/{name}/explain",
		"GET /v1/status", "GET /v1/stream", "GET /v1/usage", "GET /v1/web", "GET /v1/workloads", "GET /v1/workloads/{name}",
		"GET /v1/workloads/{name}/classify", "GET /v1/workloads/{name}/control", "GET /v1/workloads/{name}/explain", "GET /v1/workloads/{name}/flows",
		"PATCH /v1/groups/{name}", "PATCH /v1/workloads/{name}/control", "PATCH /v1/workloads/{name}/policy",
		"POST /v1/workloads", "POST /v1/workloads/{name}/tune", "PUT /v1/allocations/{name}",
	}
	if !slices.Equal(routes, want) {
		t.Errorf("routes %q\nwant %q", routes, want)
	}
	var tree any
	if err := json.Unmarshal([]byte(body), &tree); err != nil {
		t.Fatal(err)
	}
	for _, ref := range refs(tree) {
		name, ok := strings.CutPrefix(ref, "#/components/schemas/")
		if _, found := doc.Components.Schemas[name]; !ok || !found {
			t.Errorf("reference %s leads nowhere; schemas are %q", ref, slices.Sorted(maps.Keys(doc.Components.Schemas)))
		}
	}
	if strings.Contains(body, `"$schema"`) {
		t.Error("answers would carry $schema links")
	}
	if status, _, yaml := request(t, demo(), "GET", "/openapi.yaml", ""); status != 200 || !strings.Contains(yaml, "openapi: 3.1") {
		t.Errorf("openapi.yaml: %d", status)
	}
}

// refs collects every $ref of a document.
func refs(v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for key, sub := range v {
			if s, ok := sub.(string); ok && key == "$ref" {
				out = append(out, s)
			}
			out = append(out, refs(sub)...)
		}
	case []any:
		for _, sub := range v {
			out = append(out, refs(sub)...)
		}
	}
	return out
}

// TestDocsNameEveryRoute holds docs/api.md complete.
func TestDocsNameEveryRoute(t *testing.T) {
	page, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	h := New(demo(), Options{Log: quiet()})
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		for _, path := range []string{"/v1/status", "/v1/workloads", "/v1/workloads/{name}", "/v1/workloads/{name}/policy",
			"/v1/workloads/{name}/explain", "/v1/stream", "/metrics", "/openapi.json", "/openapi.yaml"} {
			mux := h.Handler().(*http.ServeMux)
			probe := httptest.NewRequest(method, strings.ReplaceAll(path, "{name}", "x"), nil)
			if _, pattern := mux.Handler(probe); pattern == "/" || pattern == "" {
				continue
			}
			if row := "| `" + method + " " + path + "` |"; !strings.Contains(string(page), row) {
				t.Errorf("docs/api.md has no row %q", row)
			}
		}
	}
}
