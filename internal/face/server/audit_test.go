// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/base/audit"
)

// bodies are requests that the fake agent grants; any other route gets the first.
var bodies = map[string]string{
	"":                                  `{"weight":7}`,
	"POST /v1/workloads":                `{"name":"fresh","netns":"blue"}`,
	"PATCH /v1/workloads/{name}/policy": `{"weight":7}`,
}

// TestEachChangeIsOneLine walks all routes: what changes something leaves exactly one
// line in the audit log with who asked, whether it is granted or refused; a dry run and
// what only looks leave none.
func TestEachChangeIsOneLine(t *testing.T) {
	log := audit.New(t.TempDir()+"/audit.log", quiet())
	s, client := startWith(t, demo(), Options{Audit: log})
	web := over(t, s.opts.Socket)
	entries := func() []audit.Entry {
		t.Helper()
		list, err := client.Audit(t.Context(), audit.Query{})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	seen, done := 0, 0
	for _, op := range operations(t, web) {
		path := strings.ReplaceAll(op.Path, "{name}", "web")
		body := bodies[op.Method+" "+op.Path]
		if body == "" {
			body = bodies[""]
		}
		for _, query := range []string{"", "?dry_run=true", "?dry_run=1", "?dry_run=no"} {
			if op.Role == "view" && query != "" || op.ID == "stream" {
				continue
			}
			req, err := http.NewRequestWithContext(t.Context(), op.Method, "http://weir"+path+query, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := web.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			list := entries()
			lines := list[seen:]
			seen = len(list)
			if op.Role == "view" || query == "?dry_run=true" || query == "?dry_run=1" {
				if len(lines) != 0 {
					t.Errorf("%s %s%s left %+v", op.Method, path, query, lines)
				}
				continue
			}
			if len(lines) != 1 {
				t.Errorf("%s %s%s left %d lines", op.Method, path, query, len(lines))
				continue
			}
			e := lines[0]
			if e.Action != op.ID || e.Object == "" && resp.StatusCode < 300 || e.Who.Via != audit.ViaSocket || e.Who.UID == nil || *e.Who.UID != uint32(os.Getuid()) ||
				e.Who.PID != int32(os.Getpid()) || e.Who.User == "" {
				t.Errorf("%s %s: %+v", op.Method, path, e)
			}
			switch ok := resp.StatusCode < 300; {
			case ok != (e.Result == audit.Done), !ok && e.Reason == "":
				t.Errorf("%s %s%s: status %d and result %q, reason %q", op.Method, path, query, resp.StatusCode, e.Result, e.Reason)
			case ok:
				done++
			}
		}
	}
	if done < 3 {
		t.Errorf("only %d requests were granted", done)
	}
}

// TestRefusalOfAViewerIsALine: who may only look and tries more is on record.
func TestRefusalOfAViewerIsALine(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a socket to a group")
	}
	log := audit.New(t.TempDir()+"/audit.log", quiet())
	s, client := startWith(t, demo(), Options{Group: "weir", ViewGroup: viewGroup, Audit: log})
	if status, _ := ask(t, over(t, api.ViewSocket(s.opts.Socket)), "PATCH", "/v1/workloads/web/policy"); status != http.StatusForbidden {
		t.Fatalf("status %d", status)
	}
	list, err := client.Audit(t.Context(), audit.Query{})
	if err != nil || len(list) != 1 || list[0].Result != audit.Refused || list[0].Action != "set-policy" || *list[0].Who.UID != 0 {
		t.Errorf("entries %+v, %v", list, err)
	}
}
